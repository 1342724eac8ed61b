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
def time_of_day(moment: str | None) -> str:
    """Return the UTC time of an RFC 3339 moment to the second."""
    return f"{moment[11:19]} UTC" if moment else UNKNOWN


@register.filter
def text(value: str | None) -> str:
    """Return a word, or the dash where it is unknown."""
    return value or UNKNOWN
