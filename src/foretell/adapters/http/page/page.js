// The page: choose a model, move its columns, and see prediction, curve and plan.

import { ask, latest, token } from "/page/api.js";
import { axes, draw } from "/page/chart.js";
import { makeControls } from "/page/columns.js";
import { PlanForm } from "/page/plan.js";
import { between, fill, number, percent, quantity, suffix, table } from "/page/words.js";

const $ = (id) => document.getElementById(id);
// `log` says which axes the user made logarithmic or not; without a choice the picture decides.
const state = { models: [], model: null, controls: new Map(), curve: null, other: null, value: null, plan: null,
  log: {} };

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
  const asked = (name) =>
    ask(`/models/${name}/predict?interval=${$("share").value}`, { rows: [row()] }, signal);
  const second = $("second").value;
  const [answer, other] = await Promise.all([asked(state.model.name), second ? asked(second) : null]);
  showPrediction(answer, answer.predictions[0]);
  showSecond(other, answer.predictions[0]);
}));

const trace = latest((signal) => guarded(async () => {
  if (!$("along").value) return;
  const body = { row: row(), column: $("along").value, interval: Number($("share").value) };
  const asked = (name) => ask(`/models/${name}/curve`, body, signal);
  const second = $("second").value;
  [state.curve, state.other] = await Promise.all([asked(state.model.name), second ? asked(second) : null]);
  showCurve();
}), 90);

const choose = latest((signal) => state.plan.update(signal, row()), 150);

function update() {
  if (!isValid()) return;
  predict();
  trace();
  choose();
}

const TRUST = { inside: "Inside the data", near: "Near the data", far: "Far outside the data",
  "unknown level": "Never measured" };

function showPrediction(answer, found) {
  state.value = found.value;
  $("value").textContent = quantity(found.value, answer.target, 4);
  $("value").dataset.value = found.value;
  $("target").textContent = answer.target;
  $("interval").textContent = found.lower === null
    ? "This model has no intervals."
    : `${percent(answer.interval)} of such runs: ${between(found.lower, found.upper, answer.target)}`;
  $("trust").textContent = TRUST[found.trust];
  $("trust").dataset.trust = found.trust;
  const error = found.expected_error === null ? "" : `mean error there ${percent(found.expected_error)}`;
  $("outside").textContent = [found.outside, error].filter(Boolean).map((text) => `· ${text}`).join(" ");
  if (state.curve) showCurve();
}

function showSecond(answer, first) {
  $("second-value").hidden = !answer;
  if (!answer) return;
  const found = answer.predictions[0];
  const change = found.value / first.value - 1;
  const sign = change > 0 ? "+" : change < 0 ? "−" : "±";
  $("second-value").textContent = `${answer.model}: ${quantity(found.value, answer.target, 4)} ` +
    `(${sign}${percent(Math.abs(change))}), ${TRUST[found.trust].toLowerCase()}`;
  $("second-value").dataset.value = found.value;
}

function showCurve() {
  const { curve, other, log } = state;
  const control = state.controls.get(curve.column);
  draw($("chart"), { curve, other, log, now: control && { x: control.get(), value: state.value } });
  const { may, isLog, x, y } = axes({ curve, other, log });
  for (const axis of ["x", "y"]) {
    $(`log-${axis}`).disabled = !may[axis];
    $(`log-${axis}`).checked = isLog[axis];
  }
  const share = percent(curve.interval);
  $("legend").textContent = ["Line: prediction.", other ? `Dashed: ${other.model}.` : "",
    curve.points.some((p) => p.lower !== null) ? `Band: ${share} of such runs.` : "", "Hatched: beyond the data.",
    curve.runs.length ? `Dots: ${curve.runs.length} measured runs with the other columns as chosen.`
      : "No measured run has the other columns as chosen.",
    "Circle: the configuration."].filter(Boolean).join(" ");
  const unit = (axis) => (axis.unit ? ` in ${axis.unit}` : "");
  const shown = (value, digits = 4) => number(value === null ? null : value / y.factor, digits);
  table($("points"),
    [curve.column + unit(x), curve.target + unit(y), `${share}: from`, "to", "Trust", ...(other ? [other.model] : [])],
    curve.points.map((p, i) => [number(p.x / x.factor), shown(p.value), shown(p.lower, 3), shown(p.upper, 3), p.trust,
      ...(other ? [shown(other.points.find((o) => o.x === p.x)?.value)] : [])]));
}

// Models that predict the same kind of quantity from columns that the first one has, too.
function comparable(model) {
  const kinds = new Map(model.columns.map((c) => [c.name, c.kind]));
  return state.models.filter((m) => !m.problem && m.name !== model.name &&
    (m.target === model.target || (suffix(m.target) && suffix(m.target) === suffix(model.target))) &&
    m.columns.every((c) => kinds.get(c.name) === c.kind));
}

function pick(name) {
  const model = state.models.find((m) => m.name === name);
  Object.assign(state, { curve: null, other: null, log: {} });
  if (!model || model.problem) {
    $("main").hidden = true;
    complain(new Error(model ? model.problem : "There is no model here yet; foretell fit makes one."));
    return;
  }
  state.model = model;
  const error = model.errors?.validation?.mape;
  $("about").textContent = `${model.technique} on ${model.n_rows.toLocaleString("en")} runs` +
    (error ? `, ${percent(error)} off at known values` : "");
  const others = comparable(model);
  fill($("second"), [["", "no other model"], ...others.map((m) => [m.name, m.name])]);
  $("second").disabled = !others.length;
  state.controls = makeControls(model, update);
  $("columns").replaceChildren(...[...state.controls.values()].map((control) => control.box));
  const numeric = model.columns.filter((c) => c.kind === "number");
  const varying = numeric.find((c) => c.low < c.high) || numeric[0];
  fill($("along"), numeric.map((c) => [c.name, c.name]), varying?.name);
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
  const sound = state.models.find((m) => m.name === chosen) || state.models.find((m) => !m.problem);
  fill($("model"), state.models.map((m) => [m.name, m.problem ? `${m.name} (cannot be read)` : m.name]), sound?.name);
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
$("along").addEventListener("change", () => {
  delete state.log.x;
  if (isValid()) trace();
});
for (const axis of ["x", "y"]) {
  $(`log-${axis}`).addEventListener("change", () => {
    state.log[axis] = $(`log-${axis}`).checked;
    if (state.curve) showCurve();
  });
}
$("share").addEventListener("change", update);
$("second").addEventListener("change", () => {
  if (!isValid()) return;
  predict();
  trace();
});
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set($("token").value);
  start();
});
for (const id of ["columns", "plan-form"]) $(id).addEventListener("submit", (event) => event.preventDefault());
new ResizeObserver(() => state.curve && showCurve()).observe($("chart"));
start();
