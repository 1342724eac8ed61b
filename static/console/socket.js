// One live connection that comes back by itself. Knows states and frames; not what they show.
//
//   live          frames arrive
//   stale         the connection stands and nothing came for a while
//   reconnecting  the connection is gone; tries go on, farther apart and never in step

const STALE_AFTER_MS = 5_000;
const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 15_000;

export function follow(path, { onFrame, onState }) {
  let state = null;
  let retryMs = RETRY_MS_MIN;
  let silence = null;

  function become(next) {
    if (next === state) return;
    state = next;
    onState(next);
  }

  function awaitFrame() {
    clearTimeout(silence);
    silence = setTimeout(() => become("stale"), STALE_AFTER_MS);
  }

  function open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}${path}`);
    socket.addEventListener("open", awaitFrame);
    socket.addEventListener("message", (event) => {
      retryMs = RETRY_MS_MIN;
      awaitFrame();
      onFrame(JSON.parse(event.data));
      become("live");
    });
    socket.addEventListener("close", () => {
      clearTimeout(silence);
      become("reconnecting");
      // Jitter: a hundred viewers must not come back in the same moment.
      setTimeout(open, retryMs * (0.5 + Math.random()));
      retryMs = Math.min(retryMs * 2, RETRY_MS_MAX);
    });
  }

  open();
}
