"""What can be said of figures that were read from the database a while ago. Knows no figures."""

from enum import StrEnum


class State(StrEnum):
    """What can be said of the figures."""

    FRESH = "fresh"
    STALE = "stale"
    NOT_KNOWN = "not known"


def aged(passed_ms: int, old_after_ms: int) -> tuple[State, str]:
    """Return the state of figures read so long ago, and a note where they are too old."""
    if passed_ms <= old_after_ms:
        return State.FRESH, ""
    return State.STALE, f"as of {passed_ms // 1000} s ago: the database is away"
