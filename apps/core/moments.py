"""Milliseconds since 1970 as moments and back. Pure, exact, UTC."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def moment(time_ms: int) -> datetime:
    """Return the moment so many milliseconds after 1970 began; OverflowError beyond 9999."""
    return _EPOCH + time_ms * _MS


def ms_of(at: datetime) -> int:
    """Return the whole milliseconds from 1970 to a moment, rounded down."""
    return (at - _EPOCH) // _MS
