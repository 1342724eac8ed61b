// Figures as text. Pure; apps/console/templatetags/mq.py says the same on the server.
// null and undefined are unknown and become a dash.

const UNKNOWN = "\u2013";
const SHORT_FROM = 10_000_000;

function grouped(value, decimals) {
  return value.toLocaleString("en-US", {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  });
}

function count(value) {
  return grouped(value, 0);
}

function short(value) {
  if (value < SHORT_FROM) return count(value);
  if (value < 1e9) return `${grouped(value / 1e6, 1)} M`;
  return `${grouped(value / 1e9, 2)} B`;
}

function rate(value) {
  return grouped(value, value === 0 || value >= 10 ? 0 : 1);
}

function size(value) {
  if (value < 1024) return `${value} B`;
  let amount = value;
  for (const unit of ["KiB", "MiB", "GiB", "TiB"]) {
    amount /= 1024;
    if (amount < 1024) return `${grouped(amount, 1)} ${unit}`;
  }
  return `${grouped(amount / 1024, 1)} PiB`;
}

const FORMATS = { count, short, rate, size, text: String, list: (words) => words.join(", ") };

export function format(kind, value) {
  if (value === null || value === undefined) return UNKNOWN;
  return (FORMATS[kind] ?? String)(value);
}

export function timeOfDay(milliseconds) {
  return `${new Date(milliseconds).toISOString().slice(11, 19)} UTC`;
}
