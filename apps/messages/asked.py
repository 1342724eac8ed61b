"""What somebody typed to find a message, and what it can mean. Pure: knows text, no engine."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum

from apps.core.moments import ms_of
from apps.core.phrases import sentence

CHARACTERS_MAX = 4_096

_ID = re.compile(r"[0-9A-Fa-f]{32}")
_PLACE = re.compile(r"([0-9]{1,4})\s*[:/@]\s*([0-9]{1,18})")
_TIME = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<minute>[0-9]{2}:[0-9]{2})(?P<second>:[0-9]{2}(?P<part>\.[0-9]{1,6})?)?"
    r"\s*(?P<zone>Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?",
    re.IGNORECASE,
)


class Meaning(StrEnum):
    """What a text is taken for."""

    NOTHING = "nothing"
    ID = "id"
    KEY = "key"
    PLACE = "place"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a text means. A time is a stretch: as long as its last part that was given.

    Times are wall ms, the second excluded.
    """

    meaning: Meaning
    text: str = ""
    queue: int | None = None
    queue_offset: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None


def read(text: str, meaning: Meaning | None = None, *, zone: tzinfo = UTC) -> Asked:
    """Return what a text means, by its form, or as the caller says.

    32 hex digits are an id, `2:17` is queue and offset, a date is a time in `zone` where it names
    none, anything else is a key. Raises ValueError, with a sentence, for a text that cannot be what
    the caller says, or is too long.
    """
    text = text.strip()
    if len(text) > CHARACTERS_MAX:
        raise ValueError(
            sentence(
                "at most %(characters_max)s characters can be searched for",
                characters_max=CHARACTERS_MAX,
            )
        )
    if not text:
        return Asked(meaning=Meaning.NOTHING)
    place, time = _place(text), _time(text, zone)
    if meaning is None:
        if _ID.fullmatch(text):
            return Asked(meaning=Meaning.ID, text=text)
        return place or time or Asked(meaning=Meaning.KEY, text=text)
    if meaning is Meaning.PLACE:
        if place is None:
            raise ValueError(sentence("a place is written as queue:offset, for example 0:1204"))
        return place
    if meaning is Meaning.TIME:
        if time is None:
            raise ValueError(sentence("a time is written as 2026-01-31 or 2026-01-31 23:59:59"))
        return time
    return Asked(meaning=meaning, text=text)


def _place(text: str) -> Asked | None:
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    queue, queue_offset = int(found[1]), int(found[2])
    return Asked(meaning=Meaning.PLACE, text=text, queue=queue, queue_offset=queue_offset)


def _time(text: str, zone: tzinfo) -> Asked | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    offset = (found["zone"] or "").upper().replace("UTC", "Z")
    clock = f"{found['minute'] or '00:00'}{found['second'] or ':00'}"
    try:
        at = datetime.fromisoformat(f"{found['day']}T{clock}{offset}")
        if at.tzinfo is None:
            at = at.replace(tzinfo=zone)
        from_ms = ms_of(at)
        # By the clock: a day has 23 or 25 hours where the clock is changed.
        to_ms = ms_of(at + _length(found))
    except (ValueError, OverflowError):
        return None
    if from_ms < 0:
        return None
    return Asked(meaning=Meaning.TIME, text=text, from_ms=from_ms, to_ms=to_ms)


def _length(found: re.Match[str]) -> timedelta:
    if found["part"]:
        return timedelta(milliseconds=1)
    if found["second"]:
        return timedelta(seconds=1)
    return timedelta(minutes=1) if found["minute"] else timedelta(days=1)
