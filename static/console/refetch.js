// Fetches the page again when what it shows has another revision. Knows data- attributes alone.
//
//   data-revision   on the page: of what it was rendered
//   data-fetched    an element with an id, whose place the one of the newer page takes

// A revision may change with every frame; the server is asked less often.
const PAUSE_MS = 2_000;

let shown;
let isFetching = false;
let fetchedAt = -PAUSE_MS;

export function keepUp(page, revision) {
  shown ??= page.dataset.revision;
  if (shown === undefined || revision === undefined || revision === shown || isFetching) return;
  if (performance.now() - fetchedAt < PAUSE_MS) return;
  fetchAgain(revision);
}

async function fetchAgain(revision) {
  isFetching = true;
  fetchedAt = performance.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    replaceParts(new DOMParser().parseFromString(await answer.text(), "text/html"));
    shown = revision;
  } catch {
    // The server is away: the revision stays another one, and the next frame tries again.
  } finally {
    isFetching = false;
  }
}

function replaceParts(newer) {
  for (const part of document.querySelectorAll("[data-fetched]")) {
    const found = newer.getElementById(part.id);
    if (found !== null && found.outerHTML !== part.outerHTML) part.replaceWith(found);
  }
}
