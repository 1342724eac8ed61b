// Draws the history of a group or a topic with uPlot. Knows the page's data- attributes and the API of series.
// A slot without a sample, and one whose value nobody knows, breaks the line. Without this, the page has the server's drawing.

import { format, timeOfDay } from "./format.js";
import { partsOf, zoneName } from "./zone.js";

const HEIGHT = 190;
// Roll-ups change once a minute at the most.
const REFRESH_FINE_MS = 5_000;
const REFRESH_MS = 60_000;
const DASHES = { two: [6, 3] };
const COLOURS = { one: "--sent", two: "--consumed", behind: "--behind" };

const page = document.getElementById("histories");
const spanMs = Number(page.dataset.spanMs);
const stepS = Number(page.dataset.resolutionS);

class History {
  constructor(figure) {
    this.figure = figure;
    this.box = figure.querySelector("[data-plot]");
    this.legend = [...figure.querySelectorAll("[data-series]")];
    this.scale = figure.dataset.unit === "s" ? 1 / 1000 : 1;
    this.kind = figure.dataset.unit === "messages" ? "count" : "rate";
    this.plot = null;
  }

  async refresh() {
    const toMs = (Math.floor(Date.now() / (stepS * 1000)) + 1) * stepS * 1000;
    const lines = await Promise.all(this.legend.map((item) => points(item.dataset.series, toMs)));
    const slots = spanMs / 1000 / stepS;
    const first = toMs / 1000 - slots * stepS;
    const xs = Array.from({ length: slots }, (_, place) => first + place * stepS);
    const columns = lines.flatMap((line) => this.columns(line, first, slots));
    if (columns.every((column) => column.every((value) => value === null))) return;
    this.show([xs, ...columns]);
  }

  // Three columns of a line: its value, and the lowest and highest of each point where they are known.
  columns(line, first, slots) {
    const found = ["value", "min", "max"].map(() => new Array(slots).fill(null));
    for (const point of line) {
      const place = Math.round((Date.parse(point.at) / 1000 - first) / stepS);
      if (place < 0 || place >= slots) continue;
      [point.value, point.min, point.max].forEach((value, index) => {
        if (value !== null) found[index][place] = Number(value) * this.scale;
      });
    }
    return found;
  }

  show(data) {
    this.legend.forEach((item, index) => {
      const known = data[1 + index * 3].filter((value) => value !== null);
      item.querySelector("[data-newest]").textContent = format(this.kind, rounded(this.kind, known.at(-1) ?? null));
    });
    if (this.plot !== null) {
      this.plot.setData(data);
      return;
    }
    this.box.replaceChildren();
    this.plot = new uPlot(this.options(), data, this.box);
    new ResizeObserver(() => this.resize()).observe(this.box);
  }

  width() {
    const style = getComputedStyle(this.box);
    return this.box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  }

  resize() {
    const width = this.width();
    if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  options() {
    const ink = colour("--quiet");
    const grid = { stroke: colour("--line-soft"), width: 1 };
    const axis = { stroke: ink, grid, ticks: { show: false }, font: "11.5px sans-serif" };
    return {
      width: this.width(),
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zoneName),
      legend: { show: false },
      cursor: { y: false },
      // A backlog begins at nothing, and so does its axis.
      scales: { y: { range: (_plot, _min, max) => [0, Math.max(1, max ?? 0) * 1.05] } },
      axes: [
        { ...axis, size: 30, values: (_plot, ticks) => ticks.map(labelOf) },
        { ...axis, size: 56, values: (_plot, ticks) => ticks.map(short) },
      ],
      series: [{}, ...this.legend.flatMap((item) => this.drawn(item))],
      bands: this.legend.map((item, index) => ({
        series: [3 + index * 3, 2 + index * 3],
        fill: `color-mix(in srgb, ${colour(COLOURS[item.dataset.look])} 18%, transparent)`,
      })),
      hooks: { setCursor: [(plot) => this.point(plot)] },
    };
  }

  drawn(item) {
    const stroke = colour(COLOURS[item.dataset.look]);
    const edge = { stroke: "transparent", width: 0, points: { show: false } };
    return [
      { label: item.dataset.title, stroke, width: 1.6, dash: DASHES[item.dataset.look], spanGaps: false },
      edge,
      edge,
    ];
  }

  // Says what the line is where it is pointed at, in place of the newest value.
  point(plot) {
    const place = plot.cursor.idx;
    this.legend.forEach((item, index) => {
      const column = plot.data[1 + index * 3];
      const value = place === null || place === undefined ? column.filter((one) => one !== null).at(-1) : column[place];
      const text = format(this.kind, rounded(this.kind, value ?? null));
      item.querySelector("[data-newest]").textContent =
        place === null || place === undefined ? text : `${text} (${timeOfDay(plot.data[0][place] * 1000)})`;
    });
  }
}

async function points(series, toMs) {
  const query = new URLSearchParams({
    [page.dataset.kind]: page.dataset.name,
    from: String(toMs - spanMs),
    to: String(toMs),
    resolution: String(stepS),
  });
  const answer = await fetch(`/api/v1/series/${series}?${query}`);
  if (!answer.ok) throw new Error(`series ${series}: ${answer.status}`);
  return (await answer.json()).points;
}

function rounded(kind, value) {
  return value === null || kind !== "count" ? value : Math.round(value);
}

function short(value) {
  if (value >= 1e6) return `${value / 1e6}M`;
  return value >= 1e4 ? `${value / 1e3}k` : String(value);
}

function labelOf(seconds) {
  const { day, time } = partsOf(seconds * 1000);
  return spanMs > 86_400_000 ? day.slice(5) : time.slice(0, spanMs > 3_600_000 ? 5 : 8);
}

// A variable may hold `light-dark(...)`, which only a property that takes colours decides.
function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  page.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

async function refreshAll() {
  if (document.hidden) return;
  // The server is away: what is drawn stays, and the next time tries again.
  await Promise.allSettled(charts.map((chart) => chart.refresh()));
}

const charts = [...page.querySelectorAll("[data-history]")].map((figure) => new History(figure));

refreshAll();
setInterval(refreshAll, stepS === 5 ? REFRESH_FINE_MS : REFRESH_MS);
// The colours of the other scheme are drawn anew.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const chart of charts) {
    chart.plot?.destroy();
    chart.plot = null;
  }
  refreshAll();
});
