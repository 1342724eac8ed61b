// One live view that comes back by itself. Knows states, versions and frames; not what they show.
//
//   live          frames arrive
//   stale         the connection stands and nothing came for a while
//   reconnecting  the connection is gone; tries go on, farther apart and never in step
//
// A frame is all of the view under a version, or what changed since the version before. Where a
// version is missing, all of it is asked for, and nothing is shown until it comes.

import { applied } from "./delta.js";

const STALE_AFTER_MS = 5_000;
// A connection that says nothing for so long is taken for dead, whatever the system thinks of it.
const DEAD_AFTER_MS = 20_000;
const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 15_000;
// More often than once a second the server takes for an abuse.
const RESYNC_EVERY_MS = 1_500;
// The server's word for a view that this page may not see, or that there is none of.
const FINAL_CODES = [4403, 4404];

export class View {
  constructor() {
    this.version = 0;
    this.state = null;
  }

  // Takes a frame; says whether there is something new to show, or a version is missing.
  take(frame) {
    if (frame.kind === "whole") {
      this.state = frame.state;
    } else if (this.state !== null && frame.version === this.version + 1) {
      this.state = applied(this.state, frame.delta);
    } else {
      this.state = null;
      return false;
    }
    this.version = frame.version;
    return true;
  }
}

export function follow(view, { onView, onState }) {
  let state = null;
  let retryMs = RETRY_MS_MIN;
  let silence = null;
  let death = null;
  let askedAt = -RESYNC_EVERY_MS;

  function become(next) {
    if (next === state) return;
    state = next;
    onState(next);
  }

  function awaitFrame(socket) {
    clearTimeout(silence);
    clearTimeout(death);
    silence = setTimeout(() => become("stale"), STALE_AFTER_MS);
    death = setTimeout(() => socket.close(), DEAD_AFTER_MS);
  }

  function resync(socket) {
    if (performance.now() - askedAt < RESYNC_EVERY_MS) return;
    askedAt = performance.now();
    socket.send("resync");
  }

  function open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const query = new URLSearchParams({ view });
    const socket = new WebSocket(`${scheme}//${location.host}/ws/live/?${query}`);
    const held = new View();
    socket.addEventListener("open", () => awaitFrame(socket));
    socket.addEventListener("message", (event) => {
      retryMs = RETRY_MS_MIN;
      awaitFrame(socket);
      const frame = JSON.parse(event.data);
      if (!held.take(frame)) {
        resync(socket);
        return;
      }
      onView(held.state, frame.history);
      become("live");
    });
    socket.addEventListener("close", (event) => {
      clearTimeout(silence);
      clearTimeout(death);
      if (FINAL_CODES.includes(event.code)) {
        become("still");
        return;
      }
      become("reconnecting");
      // Jitter: a hundred viewers must not come back in the same moment.
      setTimeout(open, retryMs * (0.5 + Math.random()));
      retryMs = Math.min(retryMs * 2, RETRY_MS_MAX);
    });
  }

  open();
}
