"""Times as browsers' fields give them. Knows queries and the viewer's time zone; no page."""

from datetime import datetime

from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from apps.core.queries import asked_time_ms
from apps.core.zones import by_the_clock, in_zone


def entered_time_ms(entered: QueryDict, name: str) -> int | None:
    """Return a time that was entered; one without an offset is by the clock of the viewer's zone.

    It is written back with its offset, so that an address made of it means the same to everybody.
    Raises ValidationError for what is no time.
    """
    found = _parsed(entered, name)
    if found is not None and found.tzinfo is None:
        entered[name] = by_the_clock(found).isoformat()
    return asked_time_ms(entered, name)


def field_value(entered: QueryDict, name: str) -> str:
    """Return a time that was entered as a field of a browser shows it, by the viewer's clock."""
    found = _parsed(entered, name)
    if found is None or found.tzinfo is None:
        return str(entered.get(name) or "")
    return in_zone(found).replace(tzinfo=None).isoformat()


def _parsed(entered: QueryDict, name: str) -> datetime | None:
    try:
        return parse_datetime(str(entered.get(name) or ""))
    except ValueError:
        return None
