"""Filters that turn figures into text; `format.js` says the same in the browser.

Pure but for the language and the time zone of the viewer, which hold while a page is made.

None is unknown and becomes a dash, and so does the "" that a template gives for the row that is
only a pattern. Nothing here returns markup: escaping stays with the template.
"""

import re
from datetime import datetime
from typing import Literal

from django import template

from apps.console.words import said
from apps.core import amounts
from apps.core.zones import in_zone, offset_text

UNKNOWN = "\N{EN DASH}"
SHORT_FROM = 10_000_000
_MOMENTS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?P<seconds>:\d\d(?:\.\d+)?)?Z", re.ASCII)

Missing = Literal[""] | None

register = template.Library()


@register.filter
def count(value: int | Missing) -> str:
    """Return a whole number with its thousands apart."""
    return UNKNOWN if value is None or value == "" else f"{value:,}"


@register.filter
def short(value: int | Missing) -> str:
    """Return a whole number, in millions or billions where it would be too wide for a tile."""
    if value is None or value == "" or value < SHORT_FROM:
        return count(value)
    if value < 1_000_000_000:
        return said("millions", number=f"{value / 1_000_000:.1f}")
    return said("billions", number=f"{value / 1_000_000_000:,.2f}")


@register.filter
def rate(value: float | Missing) -> str:
    """Return a rate a second: one decimal below ten, whole from there on."""
    if value is None or value == "":
        return UNKNOWN
    if value == 0 or value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}"


@register.filter
def size(value: int | Missing) -> str:
    """Return a number of bytes in the largest binary unit that keeps it at 1 or more."""
    return UNKNOWN if value is None or value == "" else amounts.size(value)


@register.filter
def span(value: int | Missing) -> str:
    """Return seconds in the largest unit of which there are two or more."""
    if value is None or value == "":
        return UNKNOWN
    if value < 2 * 60:
        return said("seconds", number=str(value))
    if value < 2 * 3600:
        return said("minutes", number=str(value // 60))
    if value < 2 * 86_400:
        return said("hours", number=str(value // 3600))
    return said("days", number=f"{value // 86_400:,}")


@register.filter
def ago(value: int | Missing) -> str:
    """Return how long ago something was that has an age in seconds."""
    return UNKNOWN if value is None or value == "" else said("ago", span=span(value))


@register.filter
def due(value: int | Missing) -> str:
    """Return when something is due in so many seconds; a negative number is late."""
    if value is None or value == "":
        return UNKNOWN
    if value == 0:
        return said("now")
    if value < 0:
        return said("late", span=span(-value))
    return said("ahead", span=span(value))


@register.filter
def ends(value: int | Missing) -> str:
    """Return when a lease ends, or ended, in so many seconds."""
    if value is None or value == "":
        return UNKNOWN
    return said("ahead", span=span(value)) if value >= 0 else ago(-value)


@register.filter
def drained(value: int | Missing) -> str:
    """Return in which time a backlog is gone; the dash where it does not shrink, or is unknown."""
    if value is None or value == "":
        return UNKNOWN
    return said("done") if value == 0 else said("ahead", span=span(value))


@register.filter
def duration(value: int | Missing) -> str:
    """Return a duration in milliseconds, in seconds from one second on."""
    if value is None or value == "":
        return UNKNOWN
    if value < 1000:
        return said("milliseconds", number=str(value))
    if value < 120_000:
        return said("seconds", number=f"{value / 1000:.1f}")
    return span(value // 1000)


@register.filter
def moment(value: str | datetime | None) -> str:
    """Return day and time of a moment in the viewer's zone, to the second.

    Like those that follow it takes a datetime or RFC 3339, and says how far the clock is from UTC.
    """
    return _clock(value, "%Y-%m-%d %H:%M:%S")


@register.filter
def minute(value: str | datetime | None) -> str:
    """Return day and time of a moment in the viewer's zone, to the minute."""
    return _clock(value, "%Y-%m-%d %H:%M")


@register.filter
def instant(value: str | datetime | None) -> str:
    """Return day and time of a moment in the viewer's zone, to the millisecond."""
    return _clock(value, "%Y-%m-%d %H:%M:%S", has_ms=True)


@register.filter
def time_of_day(value: str | datetime | None) -> str:
    """Return the time of a moment in the viewer's zone, to the second."""
    return _clock(value, "%H:%M:%S")


@register.filter
def percent(value: int | Missing) -> str:
    """Return a share of a hundred."""
    return UNKNOWN if value is None or value == "" else f"{value} %"


@register.filter
def text(value: str | None) -> str:
    """Return a word, or the dash where it is unknown."""
    return value or UNKNOWN


@register.filter
def times(value: object) -> str:
    """Return a text whose moments, which are RFC 3339, are by the clock of the viewer's zone.

    One without seconds is a time of day. For sentences that are made once for viewers of all zones.
    """
    return _MOMENTS.sub(_by_the_clock, str(value or ""))


def _by_the_clock(found: re.Match[str]) -> str:
    at = datetime.fromisoformat(found[0])
    return moment(at) if found["seconds"] else _clock(at, "%H:%M")


def _clock(value: str | datetime | None, form: str, *, has_ms: bool = False) -> str:
    if not value:
        return UNKNOWN
    at = in_zone(datetime.fromisoformat(value) if isinstance(value, str) else value)
    parts = f".{at.microsecond // 1000:03}" if has_ms else ""
    return f"{at.strftime(form)}{parts} {offset_text(at)}"
