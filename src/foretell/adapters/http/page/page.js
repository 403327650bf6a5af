// The page: choose a model, move its columns, and see prediction, curve and plan.

import { ask, latest, token } from "/page/api.js";
import { draw } from "/page/chart.js";
import { makeControls } from "/page/columns.js";
import { PlanForm } from "/page/plan.js";
import { element, number, percent, table, unit } from "/page/words.js";

const $ = (id) => document.getElementById(id);
const state = { models: [], model: null, controls: new Map(), curve: null, value: null, plan: null };

function complain(error) {
  $("problem").textContent = error ? error.message : "";
  $("problem").hidden = !error;
  if (error?.status === 401) $("token-form").hidden = false;
}

function row() {
  return Object.fromEntries([...state.controls].map(([name, control]) => [name, control.get()]));
}

function isValid() {
  return [...state.controls.values()].every((control) => control.isValid());
}

async function guarded(work) {
  try {
    await work();
    complain(null);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    complain(error);
    if (error.status === 404) await list();
  }
}

const predict = latest((signal) => guarded(async () => {
  const path = `/models/${state.model.name}/predict?interval=${$("share").value}`;
  const answer = await ask(path, { rows: [row()] }, signal);
  showPrediction(answer, answer.predictions[0]);
}));

const trace = latest((signal) => guarded(async () => {
  if (!$("along").value) return;
  const body = { row: row(), column: $("along").value, interval: Number($("share").value) };
  state.curve = await ask(`/models/${state.model.name}/curve`, body, signal);
  showCurve();
}), 90);

const choose = latest((signal) => state.plan.update(signal, row()), 150);

function update() {
  if (!isValid()) return;
  predict();
  trace();
  choose();
}

function showPrediction(answer, found) {
  const measured = unit(answer.target);
  state.value = found.value;
  $("value").textContent = `${number(found.value)}${measured ? ` ${measured}` : ""}`;
  $("value").dataset.value = found.value;
  $("target").textContent = answer.target;
  $("interval").textContent = found.lower === null
    ? "This model knows no intervals."
    : `${percent(answer.interval)} of such runs: ${number(found.lower, 3)} to ${number(found.upper, 3)} ${measured}`;
  const words = { inside: "Inside the data", near: "Near the data", far: "Far outside the data",
    "unknown level": "Never measured" };
  $("trust").textContent = words[found.trust];
  $("trust").dataset.trust = found.trust;
  const error = found.expected_error === null ? "" : `mean error there ${percent(found.expected_error)}`;
  $("outside").textContent = [found.outside, error].filter(Boolean).map((text) => `· ${text}`).join(" ");
  if (state.curve) showCurve();
}

function showCurve() {
  const curve = structuredClone(state.curve);
  const control = state.controls.get(curve.column);
  draw($("chart"), curve, control && { x: control.get(), value: state.value });
  const share = percent(curve.interval);
  $("legend").textContent = `Line: prediction. Band: ${share} of such runs. Hatched: beyond the data. ` +
    "Circle: the configuration.";
  table($("points"), [curve.column, curve.target, `${share}: from`, "to", "Trust"],
    state.curve.points.map((p) => [number(p.x), number(p.value), number(p.lower, 3), number(p.upper, 3), p.trust]));
}

function pick(name) {
  const model = state.models.find((m) => m.name === name);
  state.curve = null;
  if (!model || model.problem) {
    $("main").hidden = true;
    complain(new Error(model ? model.problem : "There is no model here yet; foretell fit makes one."));
    return;
  }
  state.model = model;
  const error = model.errors?.validation?.mape;
  $("about").textContent = `${model.technique} on ${model.n_rows.toLocaleString("en")} runs` +
    (error ? `, ${percent(error)} off inside the data` : "");
  state.controls = makeControls(model, update);
  $("columns").replaceChildren(...[...state.controls.values()].map((control) => control.box));
  const numeric = model.columns.filter((c) => c.kind === "number");
  const varying = numeric.find((c) => c.low < c.high) || numeric[0];
  $("along").replaceChildren(...numeric.map((c) => element("option", { value: c.name }, c.name)));
  if (varying) $("along").value = varying.name;
  $("chart").replaceChildren();
  $("points").replaceChildren();
  state.plan = new PlanForm(model, () => isValid() && choose());
  state.plan.start();
  $("main").hidden = false;
  update();
}

async function list() {
  const chosen = $("model").value;
  state.models = (await ask("/models")).models;
  $("model").replaceChildren(...state.models.map((m) =>
    element("option", { value: m.name }, m.problem ? `${m.name} (cannot be read)` : m.name)));
  const sound = state.models.find((m) => m.name === chosen) || state.models.find((m) => !m.problem);
  if (sound) $("model").value = sound.name;
  pick($("model").value);
}

async function start() {
  try {
    const health = await ask("/health");
    $("token-form").hidden = !health.needs_token;
    complain(null);
    if (health.needs_token && !token.get()) {
      complain(new Error("This server needs a token; enter it above."));
      $("token").focus();
      return;
    }
    await list();
  } catch (error) {
    complain(error);
  }
}

$("model").addEventListener("change", () => {
  complain(null);
  pick($("model").value);
});
$("along").addEventListener("change", () => isValid() && trace());
$("share").addEventListener("change", update);
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set($("token").value);
  start();
});
for (const id of ["columns", "plan-form"]) $(id).addEventListener("submit", (event) => event.preventDefault());
new ResizeObserver(() => state.curve && showCurve()).observe($("chart"));
start();
