"""Days and hours below plots, as the viewer's language writes them. Pure; UTC, as results are."""

from datetime import date, datetime

from django.utils.dateformat import format as formatted
from django.utils.translation import pgettext


def day(at: date) -> str:
    """Return a day without its year."""
    # Letters of Django's date filter.
    return formatted(at, pgettext("form of a day", "d M"))


def hour(at: datetime) -> str:
    """Return a time of day."""
    return formatted(at, "H:i")


def day_and_hour(at: datetime) -> str:
    """Return a day without its year, and a time of day."""
    return f"{day(at)} {hour(at)}"
