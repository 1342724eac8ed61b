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

function span(seconds) {
  if (seconds < 2 * 60) return `${seconds} s`;
  if (seconds < 2 * 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 2 * 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${count(Math.floor(seconds / 86_400))} d`;
}

function ago(seconds) {
  return `${span(seconds)} ago`;
}

function due(seconds) {
  if (seconds === 0) return "now";
  return seconds > 0 ? `in ${span(seconds)}` : `late by ${span(-seconds)}`;
}

function ends(seconds) {
  return seconds >= 0 ? `in ${span(seconds)}` : ago(-seconds);
}

function drained(seconds) {
  return seconds === 0 ? "done" : `in ${span(seconds)}`;
}

function duration(milliseconds) {
  if (milliseconds < 1000) return `${milliseconds} ms`;
  if (milliseconds < 120_000) return `${grouped(milliseconds / 1000, 1)} s`;
  return span(Math.floor(milliseconds / 1000));
}

function moment(text) {
  return `${text.slice(0, 10)} ${text.slice(11, 19)} UTC`;
}

function time_of_day(text) {
  return `${text.slice(11, 19)} UTC`;
}

function percent(value) {
  return `${value} %`;
}

const FORMATS = {
  count, short, rate, size, span, ago, due, ends, drained, duration, moment, time_of_day, percent,
  words: (text) => text || UNKNOWN,
  text: String,
  list: (words) => words.join(", "),
};

export function format(kind, value) {
  if (value === null || value === undefined) return UNKNOWN;
  return (FORMATS[kind] ?? String)(value);
}

export function timeOfDay(milliseconds) {
  return `${new Date(milliseconds).toISOString().slice(11, 19)} UTC`;
}
