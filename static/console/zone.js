// Moments by the clock of the time zone that the page is in. Knows the page's root, and Intl.

const DAY = { year: "numeric", month: "2-digit", day: "2-digit" };
const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };

const wanted = globalThis.document?.documentElement.dataset.zone ?? "UTC";
const clock = clockOf(wanted) ?? clockOf("UTC");

// A browser may be older than a zone; every moment says how far its clock is from UTC.
function clockOf(timeZone) {
  try {
    return new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: "longOffset", ...DAY, ...TIME });
  } catch {
    return null;
  }
}

// The parts of a moment as two-digit texts, and how far its clock is from UTC: `UTC`, `UTC+8`, `UTC-3:30`.
export function partsOf(milliseconds) {
  const parts = Object.fromEntries(clock.formatToParts(milliseconds).map(({ type, value }) => [type, value]));
  const [, sign, hours, minutes] = /^GMT(?:([+-])(\d\d):(\d\d))?/.exec(parts.timeZoneName);
  const isOff = sign !== undefined && (hours !== "00" || minutes !== "00");
  const offset = isOff ? `${sign}${Number(hours)}${minutes === "00" ? "" : `:${minutes}`}` : "";
  return {
    day: `${parts.year}-${parts.month}-${parts.day}`,
    time: `${parts.hour}:${parts.minute}:${parts.second}`,
    offset: `UTC${offset}`,
  };
}

export const zoneName = clock.resolvedOptions().timeZone;
