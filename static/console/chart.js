// A line chart of the last minutes as SVG. Knows points and pixels; no sockets, no page.
// A missing value or a missing second breaks the line: what was not measured is not drawn.

import { format, timeOfDay } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const SPAN_MS = 300_000;
// While nobody watches readings come every 4 s; what is farther apart was missed.
const GAP_MS = 6_000;
const HEIGHT = 172;
const MARGIN = { top: 8, right: 8, bottom: 22, left: 46 };

function make(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent?.append(element);
  return element;
}

function niceMax(largest) {
  const least = Math.max(largest, 4);
  const magnitude = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 4, 5, 8, 10].map((step) => step * magnitude).find((top) => top >= least);
}

function short(value) {
  if (value >= 1e6) return `${value / 1e6}M`;
  if (value >= 1e4) return `${value / 1e3}k`;
  return format("count", value);
}

export class Chart {
  // `series` lists {column, look, area}: which column of a point is drawn, and the class of its line.
  constructor(figure, { series, label, kind }) {
    this.series = series;
    this.kind = kind;
    this.readings = figure.querySelectorAll("[data-reading]");
    this.plot = figure.querySelector("[data-plot]");
    this.svg = make("svg", { role: "img", "aria-label": label, height: HEIGHT }, this.plot);
    this.points = [];
    this.pointedAt = null;
    this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  show(points) {
    this.points = points;
    this.draw();
  }

  point(x) {
    this.pointedAt = x;
    this.draw();
  }

  draw() {
    const width = this.plot.clientWidth;
    if (width === 0) return;
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.replaceChildren();
    const end = this.points.at(-1)?.[0] ?? 0;
    const visible = this.points.filter((point) => point[0] > end - SPAN_MS);
    const values = visible.flatMap((point) => this.series.map((line) => point[line.column] ?? 0));
    this.max = niceMax(Math.max(0, ...values));
    this.x = (ms) =>
      MARGIN.left + (1 - (end - ms) / SPAN_MS) * (width - MARGIN.left - MARGIN.right);
    this.y = (value) =>
      HEIGHT - MARGIN.bottom - (value / this.max) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    this.drawAxes(width, end);
    for (const line of this.series) this.drawLine(line, visible);
    this.drawPointer(visible);
  }

  drawAxes(width, end) {
    for (let step = 0; step <= 4; step += 1) {
      const value = (this.max / 4) * step;
      const y = Math.round(this.y(value)) + 0.5;
      make("line", { class: step ? "grid" : "base", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }, this.svg);
      if (step % 2 === 0) {
        make("text", { x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, this.svg).textContent = short(value);
      }
    }
    if (end === 0) return;
    for (let minute = Math.ceil((end - SPAN_MS) / 60_000) * 60_000; minute <= end; minute += 60_000) {
      const x = this.x(minute);
      if (x < MARGIN.left + 16 || x > width - MARGIN.right - 16) continue;
      make("text", { x, y: HEIGHT - 5, "text-anchor": "middle" }, this.svg).textContent =
        timeOfDay(minute).slice(0, 5);
    }
  }

  drawLine(line, points) {
    for (const run of runs(points, line.column)) {
      const path = run
        .map((point, index) => `${index ? "L" : "M"}${this.x(point[0]).toFixed(1)} ${this.y(point[line.column]).toFixed(1)}`)
        .join("");
      const [first, last] = [run[0][0], run.at(-1)[0]].map((ms) => this.x(ms).toFixed(1));
      if (line.area) make("path", { class: `area ${line.look}`, d: `${path}L${last} ${this.y(0)}L${first} ${this.y(0)}Z` }, this.svg);
      make("path", { class: `line ${line.look}`, d: path }, this.svg);
    }
  }

  drawPointer(points) {
    const nearest = this.pointedAt === null ? null : closest(points, (point) => Math.abs(this.x(point[0]) - this.pointedAt));
    const shown = nearest ?? this.points.at(-1);
    this.series.forEach((line, index) => {
      const value = shown?.[line.column] ?? null;
      this.readings[index].textContent = format(this.kind, value);
      if (nearest && value !== null) make("circle", { class: line.look, cx: this.x(nearest[0]), cy: this.y(value), r: 3.5 }, this.svg);
    });
    if (!nearest) return;
    const x = Math.round(this.x(nearest[0])) + 0.5;
    make("line", { class: "pointer", x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }, this.svg);
    const anchor = x > this.plot.clientWidth / 2 ? "end" : "start";
    make("text", { x: x + (anchor === "end" ? -6 : 6), y: MARGIN.top + 10, "text-anchor": anchor }, this.svg).textContent = timeOfDay(nearest[0]);
  }
}

function runs(points, column) {
  const found = [];
  let before = null;
  for (const point of points) {
    if (point[column] === null) {
      before = null;
      continue;
    }
    if (before === null || point[0] - before > GAP_MS) found.push([]);
    found.at(-1).push(point);
    before = point[0];
  }
  return found;
}

function closest(points, distance) {
  return points.reduce((best, point) => (best === null || distance(point) < distance(best) ? point : best), null);
}
