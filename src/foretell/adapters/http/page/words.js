// Numbers, units and elements for people.

// Larger and smaller units of what is measured in a base unit.
const STEPS = {
  s: [["µs", 1e-6], ["ms", 1e-3], ["s", 1], ["min", 60], ["h", 3600], ["d", 86400]],
  bytes: [["bytes", 1], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30], ["TiB", 2 ** 40]],
  j: [["mJ", 1e-3], ["J", 1], ["kJ", 1e3], ["MJ", 1e6], ["GJ", 1e9]],
  w: [["W", 1], ["kW", 1e3]],
};
// Units that are shown as they are in the name.
const FIXED = { ms: "ms", us: "µs", min: "min", h: "h", kwh: "kWh", kib: "KiB", mib: "MiB", gib: "GiB",
  kb: "kB", mb: "MB", gb: "GB", tb: "TB" };

export function number(value, digits = 4) {
  if (value === null || value === undefined) return "unknown";
  if (value !== 0 && (Math.abs(value) >= 1e7 || Math.abs(value) < 1e-4)) {
    return value.toExponential(digits - 1).replace("e+", "e");
  }
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 12 });
}

export function suffix(name) {
  return (/_([a-z]+)$/i.exec(name)?.[1] || "").toLowerCase();
}

// The unit in which values up to a magnitude are easy to read, and how much it is in the base unit.
export function scale(name, magnitude) {
  const end = suffix(name);
  const steps = STEPS[end];
  if (!steps) return { unit: FIXED[end] || "", factor: 1 };
  const fitting = steps.filter(([, factor]) => Math.abs(magnitude) >= factor);
  const [unit, factor] = fitting.pop() || (magnitude ? steps[0] : steps.find(([, f]) => f === 1));
  return { unit, factor };
}

// A value with its unit: times as people say them, bytes in MiB or GiB.
export function quantity(value, name, digits = 3) {
  if (value === null || value === undefined) return "unknown";
  if (suffix(name) === "s" && Math.abs(value) >= 60) return duration(value);
  const { unit, factor } = scale(name, value);
  return `${number(value / factor, digits)} ${unit}`.trim();
}

// Two ends in one unit.
export function between(low, high, name, digits = 3) {
  if (suffix(name) === "s" && high >= 60) return `${quantity(low, name)} to ${quantity(high, name)}`;
  const { unit, factor } = scale(name, high);
  return `${number(low / factor, digits)} to ${number(high / factor, digits)} ${unit}`.trim();
}

export function percent(share) {
  return `${number(100 * share, 2)} %`;
}

function duration(seconds) {
  const whole = Math.round(seconds);
  const [d, h] = [Math.floor(whole / 86400), Math.floor((whole % 86400) / 3600)];
  const [m, s] = [Math.floor((whole % 3600) / 60), whole % 60];
  if (d) return `${d} d ${h} h`;
  return h ? `${h} h ${m} min` : `${m} min ${s} s`;
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export function fill(select, pairs, chosen = "") {
  select.replaceChildren(...pairs.map(([value, text]) => element("option", { value }, text)));
  select.value = chosen;
}

export function table(place, heads, rows) {
  const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)));
  const body = rows.map((row) =>
    element("tr", {}, ...row.map((cell, i) =>
      i ? element("td", {}, cell) : element("th", { scope: "row" }, cell))));
  place.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
}
