// Keeps the page that the server rendered fresh. Joins socket, bindings and charts; draws nothing.

import { fill } from "./bind.js";
import { Chart } from "./chart.js";
import { timeOfDay } from "./format.js";
import { keepUp } from "./refetch.js";
import { follow } from "./socket.js";

const POINTS_MAX = 300;
const WORDS = { live: "Live", stale: "Stale since", reconnecting: "Reconnecting, as of", still: "As of" };

const main = document.getElementById("content");
const charts = startCharts();
let points = [];

function startCharts() {
  const rates = document.querySelector('[data-chart="rates"]');
  const backlog = document.querySelector('[data-chart="backlog"]');
  if (!rates || !backlog) return [];
  return [
    new Chart(rates, {
      label: "Messages sent and consumed per second over the last five minutes",
      kind: "rate",
      series: [
        { column: 1, look: "sent" },
        { column: 2, look: "consumed" },
      ],
    }),
    new Chart(backlog, {
      label: "Messages behind over the last five minutes, all groups",
      kind: "count",
      series: [{ column: 3, look: "behind", area: true }],
    }),
  ];
}

// What each kind of page shows of a frame; undefined when the frame does not hold all of it, and
// null when what it holds is of another time.
const VIEWS = {
  overview: (frame) => frame,
  locks: (frame) => frame.locks,
  delays: (frame) => frame.delays,
  transactions: (frame) => frame.transactions,
  clockwork: (frame) => frame.clockwork,
  topic: (frame, name) => {
    const topic = whole(frame.topics, name);
    const areReadersWhole = frame.groups.every((group) => group.queues !== null);
    return topic && areReadersWhole ? { ...topic, readers: readersOf(frame, name) } : undefined;
  },
  group: (frame, name) => whole(frame.groups, name),
  pipelines: ({ pipelines }) => known(pipelines, pipelines),
  runs: ({ pipelines }) => known(pipelines, { runs: told(pipelines) }),
  run: ({ pipelines }, name) => known(pipelines, told(pipelines).find((run) => String(run.id) === name)),
  results: ({ pipelines }, name) => known(pipelines, pipelines.jobs?.find((job) => job.name === name)),
};

function known(pipelines, view) {
  if (pipelines.state === "stale") return null;
  return pipelines.state === "fresh" ? view : undefined;
}

function told({ running, lately, runs }) {
  return running === null ? [] : [...running, ...lately, ...runs];
}

function whole(rows, name) {
  const found = rows.find((row) => row.name === name);
  return found && found.queues !== null && found.members !== null ? found : undefined;
}

function readersOf(frame, topic) {
  return frame.groups.flatMap((group) =>
    group.queues
      .filter((progress) => progress.topic === topic)
      .map((progress) => ({ ...progress, group: group.name, id: `${group.name}/${progress.queue}` })),
  );
}

function showFrame(frame) {
  remember(frame);
  showBanner(frame.clockwork.banner);
  const view = VIEWS[main.dataset.live]?.(frame, main.dataset.name);
  if (view === undefined) {
    // Too much to push: what the server rendered stays, and the page says that it stands still.
    showState("still");
    return;
  }
  if (view === null) {
    showState("stale");
    return;
  }
  showState("live");
  const asOf = document.getElementById("as-of");
  asOf.dateTime = frame.sampled_at;
  asOf.textContent = timeOfDay(frame.sampled_at_ms);
  fill(main, view);
  keepUp(main, view.revision);
  for (const chart of charts) chart.show(points);
}

function remember(frame) {
  const { send_rate: sent, consume_rate: consumed, lag } = frame.totals;
  points = frame.history ?? [...points, [frame.sampled_at_ms, sent, consumed, lag]].slice(-POINTS_MAX);
}

function showBanner(banner) {
  const box = document.getElementById("banner");
  box.hidden = banner === null;
  if (banner !== null) fill(box, banner);
}

function showState(state) {
  const box = document.getElementById("state");
  if (box.dataset.state === state) return;
  box.dataset.state = state;
  document.getElementById("state-word").textContent = WORDS[state];
}

follow("/ws/overview/", { onFrame: showFrame, onState: (state) => state !== "live" && showState(state) });
