// Keeps the page that the server rendered fresh. Joins socket, bindings and charts; draws nothing.

import { fill } from "./bind.js";
import { Chart } from "./chart.js";
import { timeOfDay } from "./format.js";
import { keepUp } from "./refetch.js";
import { follow } from "./socket.js";
import { said } from "./words.js";

const POINTS_MAX = 300;

const main = document.getElementById("content");
const charts = startCharts();
let points = [];

function startCharts() {
  const rates = document.querySelector('[data-chart="rates"]');
  const backlog = document.querySelector('[data-chart="backlog"]');
  if (!rates || !backlog) return [];
  return [
    new Chart(rates, {
      label: said("rates"),
      kind: "rate",
      series: [
        { column: 1, look: "sent" },
        { column: 2, look: "consumed" },
      ],
    }),
    new Chart(backlog, {
      label: said("backlog"),
      kind: "count",
      series: [{ column: 3, look: "behind", area: true }],
    }),
  ];
}

function showView(state, history) {
  remember(state, history);
  showBanner(state.banner);
  if (state.known !== "live") {
    // `still`: too much to push, or nothing of it: what the server rendered stays.
    showState(state.known);
    return;
  }
  showState("live");
  const asOf = document.getElementById("as-of");
  asOf.dateTime = state.sampled_at;
  asOf.textContent = timeOfDay(state.sampled_at_ms);
  fill(main, state.shown);
  keepUp(main, state.shown.revision);
  for (const chart of charts) chart.show(points);
}

function remember({ sampled_at_ms: at, shown }, history) {
  if (charts.length === 0 || shown === null) return;
  if (history?.length) {
    points = history;
    return;
  }
  const { send_rate: sent, consume_rate: consumed, lag } = shown.totals;
  points = [...points, [at, sent, consumed, lag]].slice(-POINTS_MAX);
}

function showBanner(banner) {
  const box = document.getElementById("banner");
  if (box === null) return;
  box.hidden = banner === null;
  if (banner !== null) fill(box, banner);
}

function showState(state) {
  const box = document.getElementById("state");
  if (box.dataset.state === state) return;
  box.dataset.state = state;
  document.getElementById("state-word").textContent = said(state);
}

// A page of things that are not pushed has no view; its banner is still of interest.
const { live = "clockwork", name } = main.dataset;
const isLive = main.dataset.live !== undefined;
// Who does not see the installation has no banner, and a page without a view nothing to follow.
const hasBanner = main.dataset.banner !== "none";
if (isLive || hasBanner) follow(name === undefined ? live : `${live}.${name}`, {
  onView: isLive ? showView : ({ banner }) => showBanner(banner),
  onState: (state) => isLive && state !== "live" && showState(state),
});
