// Keeps the part of a page that says what needs somebody fresh. Knows one element and one address.

const EVERY_MS = 5_000;

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch("/alerts/attention", { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const newer = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("attention");
    const shown = document.getElementById("attention");
    if (newer !== null && shown !== null && newer.outerHTML !== shown.outerHTML) shown.replaceWith(newer);
  } catch {
    // The server is away: what is shown stays, and the next time tries again.
  }
}

setInterval(refresh, EVERY_MS);
