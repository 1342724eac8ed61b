"""Moments as callers say them and as JSON carries them. Knows no clock."""

from datetime import datetime

from mqclient.errors import InvalidArgument


def milliseconds_of(time: datetime | int) -> int:
    """Return a moment in milliseconds since 1970 UTC; raise InvalidArgument without a time zone."""
    if isinstance(time, int):
        return time
    if time.tzinfo is None:
        raise InvalidArgument("a time needs a time zone")
    # Never earlier than said: what is left of a millisecond counts as a whole one.
    whole_ms = int(time.replace(microsecond=0).timestamp()) * 1000
    return whole_ms + -(-time.microsecond // 1000)


def parsed_ms(text: str) -> int:
    """Read an RFC 3339 time of an answer; raise ValueError for what is none."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return round(time.timestamp() * 1000)
