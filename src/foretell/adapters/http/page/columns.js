// One control per column of a model: a slider and a number, a choice, or a box to tick.

import { between, element, number, quantity, scale } from "/page/words.js";

const STEPS = 200;

function isWhole(column) {
  return [column.low, column.high, ...column.levels].every(Number.isInteger);
}

// What a slider covers: the measured range, and as much again beyond it.
export function reach(column) {
  const whole = isWhole(column);
  const isLog = column.low > 0 && column.high / column.low >= 20;
  let [low, high] = column.low > 0
    ? [column.low / 2, column.high * 2]
    : [column.low, column.high + (column.high - column.low || 1) / 2];
  if (whole) [low, high] = [Math.max(Math.min(1, column.low), Math.floor(low)), Math.ceil(high)];
  return { low, high, isLog, whole };
}

function rounded(value, whole) {
  if (!whole) return Number(value.toPrecision(3));
  return value < 1000 ? Math.round(value) : Number(Math.round(value).toPrecision(3));
}

function middle(column) {
  const levels = column.levels;
  if (levels.length) return levels[Math.floor((levels.length - 1) / 2)];
  const value = column.low > 0 ? Math.sqrt(column.low * column.high) : (column.low + column.high) / 2;
  return rounded(value, isWhole(column));
}

function numeric(column, id, changed) {
  const { low, high, isLog, whole } = reach(column);
  const toPosition = (v) => (Math.log(v / low) / Math.log(high / low)) * STEPS;
  const toValue = (p) => rounded(low * (high / low) ** (p / STEPS), whole);
  const usual = whole ? Math.max(1, Math.round((high - low) / STEPS)) : (high - low) / STEPS;
  const slider = element("input", isLog
    ? { type: "range", min: 0, max: STEPS, step: 1 }
    : { type: "range", min: low, max: high, step: usual });
  slider.setAttribute("aria-label", `${column.name}, slider`);
  const field = element("input", { type: "number", step: "any", id, required: true });
  const measured = column.low === column.high
    ? `measured: ${quantity(column.low, column.name)} only`
    : `measured: ${between(column.low, column.high, column.name)}`;
  const note = element("small");
  const describe = (value) => {
    const isScaled = scale(column.name, value).factor !== 1;
    slider.setAttribute("aria-valuetext", isScaled ? quantity(value, column.name) : number(value, 6));
    note.textContent = isScaled ? `${quantity(value, column.name)} · ${measured}` : measured;
  };
  const show = (value) => {
    slider.value = isLog ? toPosition(Math.min(Math.max(value, low), high)) : value;
    describe(value);
  };
  field.value = middle(column);
  show(Number(field.value));
  slider.addEventListener("input", () => {
    const value = isLog ? toValue(Number(slider.value)) : rounded6(Number(slider.value));
    field.value = value;
    describe(value);
    changed();
  });
  field.addEventListener("input", () => {
    if (field.validity.valid) {
      show(Number(field.value));
      changed();
    }
  });
  const box = element("div", { className: "column" },
    element("div", { className: "head" }, element("label", { htmlFor: id }, column.name), field),
    slider, note);
  return { box, slider, field, get: () => Number(field.value), isValid: () => field.validity.valid };
}

function rounded6(value) {
  return Number(value.toPrecision(6));
}

function choice(column, id, changed) {
  const field = element("select", { id },
    ...column.levels.map((level) => element("option", { value: level }, String(level))));
  field.addEventListener("change", changed);
  const box = element("div", { className: "column" },
    element("div", { className: "head" }, element("label", { htmlFor: id }, column.name), field));
  return { box, field, get: () => field.value, isValid: () => true };
}

function flag(column, id, changed) {
  const field = element("input", { id, type: "checkbox" });
  field.addEventListener("change", changed);
  const box = element("div", { className: "column" },
    element("div", { className: "head" }, element("label", { htmlFor: id }, column.name), field));
  return { box, field, get: () => field.checked, isValid: () => true };
}

const KINDS = { number: numeric, category: choice, flag };

export function makeControls(model, changed) {
  const made = new Map();
  model.columns.forEach((column, i) => {
    made.set(column.name, KINDS[column.kind](column, `column-${i}`, changed));
  });
  return made;
}

// What a plan may choose for a column: its levels, or numbers from end to end.
export function choices(column) {
  if (column.kind === "category") return column.levels;
  if (column.kind === "flag") return [true, false];
  const span = column.high - column.low;
  if (isWhole(column) && span <= 256) return { from: column.low, to: column.high, step: 1 };
  if (column.levels.length) return column.levels;
  return { from: column.low, to: column.high, n: 40, spacing: column.low > 0 ? "log" : "linear",
    whole: isWhole(column) };
}
