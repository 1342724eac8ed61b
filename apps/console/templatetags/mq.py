"""Filters that turn figures into text. Pure; `format.js` says the same in the browser.

None is unknown and becomes a dash, and so does the "" that a template gives for the row that is
only a pattern. Nothing here returns markup: escaping stays with the template.
"""

from typing import Literal

from django import template

UNKNOWN = "\N{EN DASH}"
SHORT_FROM = 10_000_000

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
        return f"{value / 1_000_000:.1f} M"
    return f"{value / 1_000_000_000:,.2f} B"


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
    if value is None or value == "":
        return UNKNOWN
    if value < 1024:
        return f"{value} B"
    amount = float(value)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:,.1f} PiB"


@register.filter
def span(value: int | Missing) -> str:
    """Return seconds in the largest unit of which there are two or more."""
    if value is None or value == "":
        return UNKNOWN
    if value < 2 * 60:
        return f"{value} s"
    if value < 2 * 3600:
        return f"{value // 60} min"
    if value < 2 * 86_400:
        return f"{value // 3600} h"
    return f"{value // 86_400:,} d"


@register.filter
def ago(value: int | Missing) -> str:
    """Return how long ago something was that has an age in seconds."""
    return UNKNOWN if value is None or value == "" else f"{span(value)} ago"


@register.filter
def due(value: int | Missing) -> str:
    """Return when something is due in so many seconds; a negative number is late."""
    if value is None or value == "":
        return UNKNOWN
    if value == 0:
        return "now"
    return f"in {span(value)}" if value > 0 else f"late by {span(-value)}"


@register.filter
def ends(value: int | Missing) -> str:
    """Return when a lease ends, or ended, in so many seconds."""
    if value is None or value == "":
        return UNKNOWN
    return f"in {span(value)}" if value >= 0 else ago(-value)


@register.filter
def drained(value: int | Missing) -> str:
    """Return in which time a backlog is gone; the dash where it does not shrink, or is unknown."""
    if value is None or value == "":
        return UNKNOWN
    return "done" if value == 0 else f"in {span(value)}"


@register.filter
def duration(value: int | Missing) -> str:
    """Return a duration in milliseconds, in seconds from one second on."""
    if value is None or value == "":
        return UNKNOWN
    if value < 1000:
        return f"{value} ms"
    if value < 120_000:
        return f"{value / 1000:.1f} s"
    return span(value // 1000)


@register.filter
def moment(value: str | None) -> str:
    """Return day and time of an RFC 3339 moment in UTC, to the second."""
    return f"{value[:10]} {value[11:19]} UTC" if value else UNKNOWN


@register.filter
def time_of_day(value: str | None) -> str:
    """Return the UTC time of an RFC 3339 moment to the second."""
    return f"{value[11:19]} UTC" if value else UNKNOWN


@register.filter
def percent(value: int | Missing) -> str:
    """Return a share of a hundred."""
    return UNKNOWN if value is None or value == "" else f"{value} %"


@register.filter
def text(value: str | None) -> str:
    """Return a word, or the dash where it is unknown."""
    return value or UNKNOWN
