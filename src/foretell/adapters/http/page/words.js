// Numbers and units for people.

const UNITS = { s: "s", ms: "ms", us: "µs", min: "min", h: "h", j: "J", kwh: "kWh", w: "W",
  bytes: "bytes", mib: "MiB", mb: "MB", gb: "GB", gib: "GiB" };

export function number(value, digits = 4) {
  if (value === null || value === undefined) return "unknown";
  if (value !== 0 && (Math.abs(value) >= 1e7 || Math.abs(value) < 1e-4)) {
    return value.toExponential(digits - 1).replace("e+", "e");
  }
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 12 });
}

export function unit(target) {
  const found = /_([a-z]+)$/i.exec(target);
  return (found && UNITS[found[1].toLowerCase()]) || "";
}

export function percent(share) {
  return `${number(100 * share, 2)} %`;
}

export function duration(seconds) {
  if (seconds < 60) return `${number(seconds, 3)} s`;
  const whole = Math.round(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
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

export function table(place, heads, rows) {
  const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)));
  const body = rows.map((row) =>
    element("tr", {}, ...row.map((cell, i) =>
      i ? element("td", {}, cell) : element("th", { scope: "row" }, cell))));
  place.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
}
