// The plan: what to choose, under which limits, and the answer.

import { ask } from "/page/api.js";
import { choices } from "/page/columns.js";
import { element, fill, number, percent, quantity, table } from "/page/words.js";

const $ = (id) => document.getElementById(id);
const COUNTS = /^(n_|num_)?(nodes|workers|machines)$/;
const MOST_LEVELS = 12;

export class PlanForm {
  constructor(model, changed) {
    this.model = model;
    this.changed = changed;
    this.varied = new Map();
    const boxes = model.columns
      .filter((c) => c.kind !== "number" || c.low < c.high)
      .map((column) => this.box(column));
    const legend = $("vary").querySelector("legend");
    $("vary").replaceChildren(legend, ...boxes);
    const numeric = model.columns.filter((c) => c.kind === "number");
    const counted = numeric.find((c) => COUNTS.test(c.name));
    fill($("nodes"), [["", "one"], ...numeric.map((c) => [c.name, `as many as ${c.name}`])], counted?.name);
    const types = model.columns.filter((c) => c.kind === "category" && c.levels.length <= MOST_LEVELS);
    fill($("by"), [["", "one price"], ...types.map((c) => [c.name, `by ${c.name}`])]);
    this.showPrices();
    for (const id of ["deadline", "budget", "confidence", "nodes", "allow-far"]) $(id).oninput = changed;
    $("by").oninput = () => {
      this.showPrices();
      changed();
    };
  }

  box(column) {
    const box = element("input", { type: "checkbox", oninput: this.changed });
    box.checked = column.kind === "category" ? false : COUNTS.test(column.name);
    this.varied.set(column.name, box);
    return element("label", { className: "inline" }, box, column.name);
  }

  // Something must be left to choose, or there is nothing to plan.
  start() {
    const boxes = [...this.varied.values()];
    const numeric = this.model.columns.filter((c) => c.kind === "number" && c.low < c.high);
    if (!boxes.some((b) => b.checked) && numeric.length) {
      this.varied.get(numeric[numeric.length - 1].name).checked = true;
    }
  }

  showPrices() {
    const by = $("by").value;
    const column = this.model.columns.find((c) => c.name === by);
    const names = column ? column.levels : [""];
    this.prices = new Map(names.map((name) => [name,
      element("input", { type: "number", min: 0, step: "any", placeholder: "none", oninput: this.changed })]));
    $("prices").replaceChildren(...[...this.prices].map(([name, field]) =>
      element("label", {}, name ? `${name}: price per machine and hour` : "Price per machine and hour", field)));
  }

  request(row) {
    const asked = { vary: {}, fix: {}, confidence: Number($("confidence").value),
      allow_far: $("allow-far").checked };
    for (const column of this.model.columns) {
      const isVaried = this.varied.get(column.name)?.checked;
      if (isVaried) asked.vary[column.name] = choices(column);
      else asked.fix[column.name] = row[column.name];
    }
    if ($("deadline").value.trim()) asked.deadline = $("deadline").value.trim();
    const budget = $("budget").value.trim();
    if (budget) asked.budget = Number.isNaN(Number(budget)) ? budget : Number(budget);
    const given = [...this.prices].filter(([, field]) => field.value !== "");
    if (given.length) {
      asked.prices = { nodes: $("nodes").value || 1 };
      const by = $("by").value;
      if (by) {
        asked.prices.by = by;
        asked.prices.machines = Object.fromEntries(
          given.map(([name, field]) => [name, { price_per_hour: Number(field.value) }]));
        if (by in asked.vary) asked.vary[by] = given.map(([name]) => name);
      } else asked.prices.price_per_hour = Number(given[0][1].value);
    }
    return asked;
  }

  async update(signal, row) {
    if (![...this.varied.values()].some((box) => box.checked)) {
      clear("Tick a column to be chosen.");
      return;
    }
    let plan;
    try {
      plan = await ask(`/models/${this.model.name}/plan`, this.request(row), signal);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      clear(error.message);
      return;
    }
    this.show(plan);
  }

  show(plan) {
    const [first, ...rest] = plan.text.split("\n").map((line) => line.trim());
    const tableAt = rest.findIndex((line) => line.startsWith("how sure"));
    $("plan-first").textContent = first;
    $("plan-more").textContent = (tableAt < 0 ? rest : rest.slice(0, tableAt)).join("\n");
    const varied = [...this.varied].filter(([, box]) => box.checked).map(([name]) => name);
    const kinds = [...new Set(Object.values(plan.by_certainty)
      .flatMap((o) => (o ? Object.keys(o.estimates) : [])))];
    table($("certainties"), ["Certainty", ...varied, ...kinds, "Trust"],
      Object.entries(plan.by_certainty).map(([share, option]) => [percent(Number(share)),
        ...(option ? [
          ...varied.map((name) => value(option.configuration[name], name)),
          ...kinds.map((kind) => estimate(kind, option.estimates[kind], plan.currency)),
          option.trust,
        ] : [...varied.map(() => "–"), ...kinds.map(() => "–"), "no choice"])]));
  }
}

function value(found, name) {
  return typeof found === "number" ? quantity(found, name, 6) : String(found);
}

// What each kind of estimate is measured in, as the end of a name.
const NAMES = { time: "_s", energy: "_j", memory: "_bytes", power: "_w" };

function estimate(kind, found, currency) {
  if (!found) return "–";
  if (kind === "cost") return `${number(found.value, 3)} ${currency || ""}`.trim();
  if (kind === "carbon") return `${number(found.value, 3)} g`;
  return quantity(found.value, NAMES[kind] || "");
}

function clear(text) {
  $("plan-first").textContent = text;
  $("plan-more").textContent = "";
  $("certainties").replaceChildren();
}
