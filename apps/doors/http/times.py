"""Times as text: RFC 3339 in UTC with milliseconds. Takes times as values; knows no clock."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def rfc3339(time_ms: int) -> str:
    """Return milliseconds since 1970 UTC as `2026-01-31T12:00:00.123Z`.

    Beyond the year 9999 it raises ValueError, OverflowError or OSError, as the platform does.
    """
    seconds, milliseconds = divmod(time_ms, 1000)
    return f"{_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
