"""What can be said of figures that were read from the database a while ago. Knows no figures."""

from enum import StrEnum
from typing import Final

from apps.core.phrases import Text, phrase


class State(StrEnum):
    """What can be said of the figures."""

    FRESH = "fresh"
    STALE = "stale"
    NOT_KNOWN = "not known"


NOT_READ_YET: Final = phrase("not read yet")


def aged(passed_ms: int, old_after_ms: int) -> tuple[State, Text]:
    """Return the state of figures read so long ago, and a note where they are too old."""
    if passed_ms <= old_after_ms:
        return State.FRESH, ""
    return State.STALE, _away(passed_ms // 1000)


def _away(passed_s: int) -> Text:
    return phrase("as of %(seconds)s s ago: the database is away", seconds=passed_s)
