// The scaling curve as a picture: predictions, intervals, measured runs, and what lies beyond the data.

import { between, number, quantity, scale } from "/page/words.js";

const SPACE = "http://www.w3.org/2000/svg";
const HEIGHT = 360, TOP = 18, RIGHT = 18, BOTTOM = 56, CHARACTER = 7.5;

function shape(name, attributes = {}, text) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// One axis: values in base units, positions on the screen, ticks that are round in the unit shown.
class Axis {
  constructor(name, low, high, isLog) {
    Object.assign(this, { name, low, high, isLog, ...scale(name, Math.max(Math.abs(low), Math.abs(high)) / 2) });
  }
  place(from, to) {
    Object.assign(this, { from, to });
    return this;
  }
  at(value) {
    const f = this.isLog ? (v) => Math.log(Math.max(v, 1e-300)) : (v) => v;
    const share = (f(value) - f(this.low)) / (f(this.high) - f(this.low) || 1);
    return this.from + Math.min(Math.max(share, -20), 20) * (this.to - this.from);
  }
  label(value) {
    return number(value / this.factor, 3);
  }
  get title() {
    return this.name + (this.unit ? ` in ${this.unit}` : "") + (this.isLog ? " (log scale)" : "");
  }
  ticks(most) {
    const [low, high] = [this.low / this.factor, this.high / this.factor];
    const found = (this.isLog && logTicks(low, high, most)) || plainTicks(low, high, most);
    return found.map((v) => v * this.factor);
  }
  // As many ticks as have room for their labels side by side.
  roomyTicks() {
    for (let most = Math.floor((this.to - this.from) / 45); most > 2; most--) {
      const found = this.ticks(most);
      const widths = found.map((v) => CHARACTER * this.label(v).length + 12);
      if (found.every((v, i) => !i ||
        this.at(v) - this.at(found[i - 1]) >= (widths[i] + widths[i - 1]) / 2)) return found;
    }
    return this.ticks(2);
  }
}

function plainTicks(low, high, most) {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((m) => m * power >= rough * (1 - 1e-9)) * power;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); i++) found.push(i * step);
  return found;
}

function logTicks(low, high, most) {
  let best = [];
  for (const parts of [[1], [1, 3], [1, 2, 5]]) {
    const found = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++) {
      for (const part of parts) {
        const v = part * 10 ** p;
        if (v >= low * 0.999 && v <= high * 1.001) found.push(v);
      }
    }
    if (found.length > best.length && found.length <= most) best = found;
  }
  return best.length >= 2 ? best : null;
}

// Which axes can be logarithmic, and which are by default.
export function axes({ curve, other, log = {} }) {
  const points = [...curve.points, ...(other?.points || [])];
  const x = points.map((p) => p.x);
  const [first, last] = [Math.min(...x), Math.max(...x)];
  const inside = points.filter((p) => p.x >= curve.low && p.x <= curve.high);
  const values = points.map((p) => p.value);
  const runs = curve.runs.map((r) => r.value);
  // Far outside the data bands grow without end; the picture shows the data, and some more.
  const top = Math.max(...values.map((v) => 1.3 * v), ...inside.map((p) => p.upper ?? p.value), ...runs);
  const least = Math.min(...values, ...runs, ...inside.map((p) => p.lower ?? p.value));
  const may = { x: first > 0, y: least > 0 };
  const isLog = {
    x: may.x && (log.x ?? last / first >= 8),
    y: may.y && (log.y ?? top / least > 50),
  };
  return {
    may, isLog,
    x: new Axis(curve.column, first, last, isLog.x),
    y: new Axis(curve.target, isLog.y ? least / 1.3 : Math.min(0, least), top * 1.03, isLog.y),
  };
}

function drawAxes(svg, { x, y }) {
  for (const value of y.ticks(6)) {
    const g = shape("g", { class: "tick" });
    g.append(shape("line", { x1: x.from, x2: x.to, y1: y.at(value), y2: y.at(value) }));
    g.append(shape("text", { x: x.from - 8, y: y.at(value) + 4, "text-anchor": "end" }, y.label(value)));
    svg.append(g);
  }
  for (const value of x.roomyTicks()) {
    const g = shape("g", { class: "tick x" });
    g.append(shape("line", { x1: x.at(value), x2: x.at(value), y1: y.from, y2: y.from + 5 }));
    g.append(shape("text", { x: x.at(value), y: y.from + 20, "text-anchor": "middle" }, x.label(value)));
    svg.append(g);
  }
  const middle = (y.from + y.to) / 2;
  svg.append(shape("text", { x: (x.from + x.to) / 2, y: HEIGHT - 10, "text-anchor": "middle", class: "title" },
    x.title));
  svg.append(shape("text", { x: 14, y: middle, "text-anchor": "middle", class: "title",
    transform: `rotate(-90 14 ${middle})` }, y.title));
}

function drawBeyond(svg, { x, y }, curve) {
  const labels = [];
  [[x.from, x.at(curve.low)], [x.at(curve.high), x.to]].forEach(([from, to], i) => {
    if (to - from < 1) return;
    const box = { x: from, y: TOP, width: to - from, height: y.from - TOP };
    svg.append(shape("rect", { ...box, class: "beyond" }));
    svg.append(shape("rect", { ...box, fill: "url(#hatch)" }));
    const edge = i ? from : to;
    svg.append(shape("line", { x1: edge, x2: edge, y1: TOP, y2: y.from, class: "edge" }));
    if (to - from > 110) {
      labels.push(shape("text", { x: (from + to) / 2, y: TOP + 16, "text-anchor": "middle", class: "note" },
        "beyond the data"));
    }
  });
  return labels;
}

function drawCurve(g, { x, y }, curve, kind) {
  const at = (p, v) => `${x.at(p.x).toFixed(1)},${y.at(v).toFixed(1)}`;
  const known = curve.points.filter((p) => p.lower !== null && p.upper !== null);
  if (known.length && kind === "first") {
    const band = [...known.map((p) => at(p, p.upper)), ...known.toReversed().map((p) => at(p, p.lower))];
    g.append(shape("polygon", { points: band.join(" "), class: "band" }));
  }
  g.append(shape("polyline", { points: curve.points.map((p) => at(p, p.value)).join(" "), class: `line ${kind}` }));
}

// `other` is the same curve of a second model, `now` the configuration that is chosen.
export function draw(place, { curve, other, now, log }) {
  const width = Math.max(300, Math.round(place.clientWidth) || 720);
  const both = axes({ curve, other, log });
  const { x, y } = both;
  y.place(HEIGHT - BOTTOM, TOP);
  const longest = Math.max(...y.ticks(6).map((v) => y.label(v).length));
  x.place(Math.max(48, 36 + CHARACTER * longest), width - RIGHT);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": description(curve) });
  const defs = shape("defs");
  const hatch = shape("pattern", { id: "hatch", width: 8, height: 8, patternUnits: "userSpaceOnUse",
    patternTransform: "rotate(45)" });
  hatch.append(shape("line", { x1: 0, y1: 0, x2: 0, y2: 8, class: "hatch" }));
  const frame = { x: x.from, y: TOP, width: x.to - x.from, height: y.from - TOP };
  const clip = shape("clipPath", { id: "inside-frame" });
  clip.append(shape("rect", frame));
  defs.append(hatch, clip);
  svg.append(defs);
  const labels = drawBeyond(svg, both, curve);
  drawAxes(svg, both);
  const g = shape("g", { "clip-path": "url(#inside-frame)" });
  if (other) drawCurve(g, both, other, "second");
  drawCurve(g, both, curve, "first");
  for (const run of curve.runs) {
    g.append(shape("circle", { cx: x.at(run.x), cy: y.at(run.value), r: 3.5, class: "run" }));
  }
  svg.append(g, shape("rect", { ...frame, class: "frame" }), ...labels);
  if (now && now.x >= x.low && now.x <= x.high && now.value <= y.high && now.value >= y.low) {
    svg.append(shape("circle", { cx: x.at(now.x), cy: y.at(now.value), r: 6, class: "now" }));
  }
  place.replaceChildren(svg);
}

function description({ points, target, column, low, high, runs }) {
  const [first, last] = [points[0], points[points.length - 1]];
  const at = (p) => `${quantity(p.value, target)} at ${quantity(p.x, column)}`;
  return `${target} along ${column}: ${at(first)}, ${at(last)}. Measured from ${between(low, high, column)}; ` +
    `${runs.length} measured runs are shown. A table follows.`;
}
