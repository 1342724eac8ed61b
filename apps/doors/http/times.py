"""Times as text: RFC 3339, in UTC with milliseconds. Takes times as values; knows no clock."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=1024)
def rfc3339(time_ms: int) -> str:
    """Return milliseconds since 1970 UTC as `2026-01-31T12:00:00.123Z`.

    Beyond the year 9999 it raises ValueError, OverflowError or OSError, as the platform does.
    """
    seconds, milliseconds = divmod(time_ms, 1000)
    return f"{_second(seconds)}.{milliseconds:03d}Z"


def parsed(text: str) -> int | None:
    """Return the first whole millisecond since 1970 UTC at or after a time; None for no time.

    What is finer than a microsecond is dropped.
    """
    if _RFC3339.fullmatch(text) is None:
        return None
    try:
        time = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return -((_BEGINNING - time) // _MICROSECOND // 1000)


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
