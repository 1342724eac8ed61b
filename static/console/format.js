// Figures as text; apps/console/templatetags/mq.py says the same on the server.
// Pure but for the language and the time zone of the page. null and undefined are unknown and become a dash.

import { said } from "./words.js";
import { partsOf } from "./zone.js";

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
  if (value < 1e9) return said("millions", { number: grouped(value / 1e6, 1) });
  return said("billions", { number: grouped(value / 1e9, 2) });
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

function span(seconds) {
  if (seconds < 2 * 60) return said("seconds", { number: seconds });
  if (seconds < 2 * 3600) return said("minutes", { number: Math.floor(seconds / 60) });
  if (seconds < 2 * 86_400) return said("hours", { number: Math.floor(seconds / 3600) });
  return said("days", { number: count(Math.floor(seconds / 86_400)) });
}

function ago(seconds) {
  return said("ago", { span: span(seconds) });
}

function ahead(seconds) {
  return said("ahead", { span: span(seconds) });
}

function due(seconds) {
  if (seconds === 0) return said("now");
  return seconds > 0 ? ahead(seconds) : said("late", { span: span(-seconds) });
}

function ends(seconds) {
  return seconds >= 0 ? ahead(seconds) : ago(-seconds);
}

function drained(seconds) {
  return seconds === 0 ? said("done") : ahead(seconds);
}

function duration(milliseconds) {
  if (milliseconds < 1000) return said("milliseconds", { number: milliseconds });
  if (milliseconds < 120_000) return said("seconds", { number: grouped(milliseconds / 1000, 1) });
  return span(Math.floor(milliseconds / 1000));
}

function moment(text) {
  const { day, time, offset } = partsOf(Date.parse(text));
  return `${day} ${time} ${offset}`;
}

function time_of_day(text) {
  return timeOfDay(Date.parse(text));
}

// A text whose moments are by the clock of the page; one without seconds is a time of day.
function times(text) {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(?:\.\d+)?)?Z/g, (found, seconds) => {
    if (seconds !== undefined) return moment(found);
    const { time, offset } = partsOf(Date.parse(found));
    return `${time.slice(0, 5)} ${offset}`;
  });
}

function percent(value) {
  return `${value} %`;
}

const FORMATS = {
  count, short, rate, size, span, ago, due, ends, drained, duration, moment, time_of_day, times, percent,
  words: (text) => text || UNKNOWN,
  text: String,
  list: (words) => words.join(", "),
};

export function format(kind, value) {
  if (value === null || value === undefined) return UNKNOWN;
  return (FORMATS[kind] ?? String)(value);
}

export function timeOfDay(milliseconds) {
  const { time, offset } = partsOf(milliseconds);
  return `${time} ${offset}`;
}
