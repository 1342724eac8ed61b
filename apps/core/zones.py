"""Time zones that moments are shown and entered in. Knows cookies; no page, no text.

Programs are told UTC: what the API and exports say is the same for everybody.
"""

import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache

from django.http import HttpRequest
from django.utils import timezone

ZONE_COOKIE = "mqweb_zone"
UTC_NAME = "UTC"

# Of the standard list these are the ones by place; the others are aliases kept for old programs.
_REGIONS = (
    "Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe",
    "Indian", "Pacific",
)  # fmt: skip


def zone_of(request: HttpRequest) -> tzinfo:
    """Return the zone that whoever asks has chosen; without a choice UTC."""
    return zone_named(request.COOKIES.get(ZONE_COOKIE, ""))


def zone_named(name: str) -> tzinfo:
    """Return a zone of the standard list by its name; anything unknown is UTC."""
    return zoneinfo.ZoneInfo(name) if name != UTC_NAME and name in _known() else UTC


def name_of(zone: tzinfo) -> str:
    """Return the name that a zone has in the standard list."""
    return zone.key if isinstance(zone, zoneinfo.ZoneInfo) else UTC_NAME


@cache
def names_by_region() -> dict[str, list[str]]:
    """Return the zones to choose from by their part of the world, each in order."""
    return {
        region: sorted(name for name in _known() if name.startswith(f"{region}/"))
        for region in _REGIONS
    }


def offset_text(at: datetime) -> str:
    """Return how far a moment's clock is from UTC: `UTC`, `UTC+8`, `UTC-3:30`."""
    minutes = (at.utcoffset() or timedelta()) // timedelta(minutes=1)
    if minutes == 0:
        return "UTC"
    hours, rest = divmod(abs(minutes), 60)
    sign = "+" if minutes > 0 else "-"
    return f"UTC{sign}{hours}:{rest:02}" if rest else f"UTC{sign}{hours}"


def in_zone(at: datetime) -> datetime:
    """Return the same moment by the clock of whoever looks at the page."""
    return at.astimezone(timezone.get_current_timezone())


def by_the_clock(at: datetime) -> datetime:
    """Return the moment at which the clock of whoever looks at the page shows a time.

    Of an hour that the clock shows twice it is the first; one that it leaves out is as if the clock
    had not been put forward.
    """
    return at.replace(tzinfo=timezone.get_current_timezone())


@cache
def _known() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
