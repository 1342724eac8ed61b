"""Days and hours below plots, as the viewer's language writes them. Pure.

Days are those of UTC, by which results are counted; a time of day is by the viewer's clock.
"""

from datetime import date, datetime

from django.utils.dateformat import format as formatted
from django.utils.translation import pgettext

from apps.core.zones import in_zone


def day(at: date) -> str:
    """Return a day without its year."""
    # Letters of Django's date filter.
    return formatted(at, pgettext("form of a day", "d M"))


def hour(at: datetime) -> str:
    """Return a time of day."""
    return formatted(in_zone(at), "H:i")


def day_and_hour(at: datetime) -> str:
    """Return a day without its year, and a time of day."""
    return f"{day(in_zone(at))} {hour(at)}"
