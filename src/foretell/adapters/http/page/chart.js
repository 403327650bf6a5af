// The scaling curve as a picture: a line, its band, and what lies beyond the data shaded.

import { number } from "/page/words.js";

const SPACE = "http://www.w3.org/2000/svg";
const HEIGHT = 340, TOP = 18, LEFT = 72, RIGHT = 18, BOTTOM = 52;

function shape(name, attributes = {}, text) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

class Scale {
  constructor(low, high, from, to, isLog) {
    Object.assign(this, { low, high, from, to, isLog });
  }
  at(value) {
    const f = this.isLog ? Math.log : (v) => v;
    const share = (f(value) - f(this.low)) / (f(this.high) - f(this.low) || 1);
    return this.from + share * (this.to - this.from);
  }
  ticks(most) {
    return this.isLog ? this.logTicks(most) : this.plainTicks(most);
  }
  plainTicks(most) {
    const rough = (this.high - this.low) / most || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((m) => m * power >= rough) * power;
    const found = [];
    for (let v = Math.ceil(this.low / step) * step; v <= this.high * (1 + 1e-9); v += step) {
      found.push(Math.abs(v) < step * 1e-9 ? 0 : v);
    }
    return found;
  }
  logTicks(most) {
    const decades = [[1], [1, 3], [1, 2, 5]];
    let best = [];
    for (const parts of decades) {
      const found = [];
      for (let p = Math.floor(Math.log10(this.low)); p <= Math.log10(this.high); p++) {
        for (const part of parts) {
          const v = part * 10 ** p;
          if (v >= this.low * 0.999 && v <= this.high * 1.001) found.push(v);
        }
      }
      if (found.length > best.length && found.length <= most) best = found;
    }
    return best.length >= 2 ? best : this.plainTicks(most);
  }
}

function scales(curve, width) {
  const x = curve.points.map((p) => p.x);
  const [first, last] = [x[0], x[x.length - 1]];
  const inside = curve.points.filter((p) => p.x >= curve.low && p.x <= curve.high);
  const values = curve.points.map((p) => p.value);
  // Far outside, bands grow without end; the picture shows what was measured, and some more.
  const top = Math.max(...values.map((v) => 1.6 * v), ...inside.map((p) => p.upper ?? p.value));
  const ends = inside.flatMap((p) => [p.lower ?? p.value, p.value]);
  const least = Math.min(...values, ...ends);
  const isLogY = least > 0 && top / least > 50;
  return {
    x: new Scale(first, last, LEFT, width - RIGHT, first > 0 && last / first >= 8),
    y: new Scale(isLogY ? least / 1.5 : 0, top * 1.03, HEIGHT - BOTTOM, TOP, isLogY),
  };
}

function axes(svg, { x, y }, curve, width) {
  const bottom = HEIGHT - BOTTOM;
  for (const value of y.ticks(6)) {
    const g = shape("g", { class: "tick" });
    g.append(shape("line", { x1: LEFT, x2: width - RIGHT, y1: y.at(value), y2: y.at(value) }));
    g.append(shape("text", { x: LEFT - 8, y: y.at(value) + 4, "text-anchor": "end" }, number(value, 3)));
    svg.append(g);
  }
  for (const value of x.ticks(Math.max(3, Math.floor(width / 90)))) {
    const g = shape("g", { class: "tick" });
    g.append(shape("line", { x1: x.at(value), x2: x.at(value), y1: bottom, y2: bottom + 5 }));
    g.append(shape("text", { x: x.at(value), y: bottom + 20, "text-anchor": "middle" }, number(value, 3)));
    svg.append(g);
  }
  const middle = (LEFT + width - RIGHT) / 2;
  svg.append(shape("text", { x: middle, y: HEIGHT - 10, "text-anchor": "middle" },
    curve.column + (x.isLog ? " (log scale)" : "")));
  svg.append(shape("text", { x: 16, y: (TOP + bottom) / 2, "text-anchor": "middle",
    transform: `rotate(-90 16 ${(TOP + bottom) / 2})` }, curve.target + (y.isLog ? " (log scale)" : "")));
}

function beyond(svg, { x }, curve, width) {
  const bottom = HEIGHT - BOTTOM;
  const parts = [[x.from, x.at(curve.low)], [x.at(curve.high), width - RIGHT]];
  const labels = [];
  parts.forEach(([from, to], i) => {
    if (to - from < 1) return;
    const box = { x: from, y: TOP, width: to - from, height: bottom - TOP };
    svg.append(shape("rect", { ...box, class: "beyond" }));
    svg.append(shape("rect", { ...box, fill: "url(#hatch)" }));
    const edge = i ? from : to;
    svg.append(shape("line", { x1: edge, x2: edge, y1: TOP, y2: bottom, class: "edge" }));
    if (to - from > 110) {
      labels.push(shape("text", { x: (from + to) / 2, y: TOP + 16, "text-anchor": "middle", class: "note" },
        "beyond the data"));
    }
  });
  return labels;
}

export function draw(place, curve, now) {
  const width = Math.max(320, Math.round(place.clientWidth) || 720);
  const both = scales(curve, width);
  const { x, y } = both;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": told(curve) });
  const defs = shape("defs");
  const hatch = shape("pattern", { id: "hatch", width: 8, height: 8, patternUnits: "userSpaceOnUse",
    patternTransform: "rotate(45)" });
  hatch.append(shape("line", { x1: 0, y1: 0, x2: 0, y2: 8, class: "hatch" }));
  const clip = shape("clipPath", { id: "inside-frame" });
  clip.append(shape("rect", { x: LEFT, y: TOP, width: width - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM }));
  defs.append(hatch, clip);
  svg.append(defs);
  const labels = beyond(svg, both, curve, width);
  axes(svg, both, curve, width);
  const g = shape("g", { "clip-path": "url(#inside-frame)" });
  const bounded = (v) => Math.min(Math.max(v, -1e4), 1e4);
  const at = (p, v) => `${x.at(p.x).toFixed(1)},${bounded(y.at(Math.max(v, y.isLog ? 1e-300 : v))).toFixed(1)}`;
  const known = curve.points.filter((p) => p.lower !== null);
  if (known.length) {
    const band = [...known.map((p) => at(p, p.upper)), ...known.reverse().map((p) => at(p, p.lower))];
    g.append(shape("polygon", { points: band.join(" "), class: "band" }));
  }
  g.append(shape("polyline", { points: curve.points.map((p) => at(p, p.value)).join(" "), class: "line" }));
  svg.append(g);
  svg.append(shape("rect", { x: LEFT, y: TOP, width: width - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM,
    class: "frame" }));
  svg.append(...labels);
  if (now && now.x >= x.low && now.x <= x.high && now.value <= y.high && now.value >= y.low) {
    svg.append(shape("circle", { cx: x.at(now.x), cy: y.at(now.value), r: 6, class: "now" }));
  }
  place.replaceChildren(svg);
}

function told(curve) {
  const [first, last] = [curve.points[0], curve.points[curve.points.length - 1]];
  return `${curve.target} along ${curve.column}: ${number(first.value)} at ${number(first.x)}, ` +
    `${number(last.value)} at ${number(last.x)}. Measured from ${number(curve.low)} to ` +
    `${number(curve.high)}. A table follows.`;
}
