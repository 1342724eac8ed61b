"""Delayed messages as a picture shows them: each level, and what is due when. Pure.

None is unknown everywhere, and never written as 0.
"""

from typing import Final, TypedDict

from apps.console.bars import bars
from apps.core.amounts import duration, span
from apps.core.phrases import Text, phrase
from apps.delays.selectors import Delays
from apps.engine.delaytypes import DelayLevelState

# Levels are looked at each second; beyond this the clockwork does not keep up, or does not run.
LATE_S: Final = 5


class LevelRow(TypedDict):
    """One delay level; its head is due in so many seconds, negative when it is late."""

    id: str
    level: int
    delay_s: int
    pending: int
    bar: str
    head_due_s: int | None
    head_level: str
    late_ms: int | None
    delivered: int


class BucketRow(TypedDict):
    """Messages by how far off they are."""

    id: str
    title: Text
    count: int
    bar: str


class DelaysPicture(TypedDict):
    """The delays at one moment; `held_note` is empty unless a clock's jump holds them back."""

    in_levels: int
    pending: int
    waiting: int
    next_due_s: int | None
    late_ms: int | None
    level_late_ms: int | None
    head_level: str
    held_note: Text
    delivered: int
    cancelled: int
    sent_now: int
    without_topic: int
    levels: list[LevelRow]
    buckets: list[BucketRow]


def picture_of(found: Delays, *, now_ms: int) -> DelaysPicture:
    """Put what the engine said into words and bars."""
    status = found.status
    pending = [state.max_offset - state.delivered for state in found.levels]
    levels = [
        _level_row(state, bar, now_ms)
        for state, bar in zip(found.levels, bars(pending), strict=True)
    ]
    late = [state.late_ms for state in found.levels if state.late_ms is not None]
    return {
        "in_levels": found.in_levels,
        "pending": status.pending,
        "waiting": found.in_levels + status.pending,
        "next_due_s": _seconds_until(status.next_due_ms, now_ms),
        "late_ms": status.late_ms,
        "level_late_ms": max(late, default=None),
        "head_level": "late" if any(row["head_level"] for row in levels) else "",
        "held_note": _held_note(status.clock_held_ms),
        "delivered": status.delivered,
        "cancelled": status.cancelled,
        "sent_now": status.sent_now,
        "without_topic": status.without_topic,
        "levels": levels,
        "buckets": _buckets(status.histogram),
    }


def _level_row(state: DelayLevelState, bar: str, now_ms: int) -> LevelRow:
    due_s = _seconds_until(state.head_due_ms, now_ms)
    return {
        "id": str(state.level),
        "level": state.level,
        "delay_s": state.delay_ms // 1000,
        "pending": state.max_offset - state.delivered,
        "bar": bar,
        # What is due waits up to a second for its turn: that is on time.
        "head_due_s": 0 if due_s is not None and -LATE_S < due_s < 0 else due_s,
        "head_level": "late" if due_s is not None and due_s <= -LATE_S else "",
        "late_ms": state.late_ms,
        "delivered": state.delivered,
    }


def _buckets(histogram: tuple[tuple[int | None, int], ...]) -> list[BucketRow]:
    lengths = bars([count for _, count in histogram])
    rows: list[BucketRow] = []
    last_s: int | None = None
    title: Text
    for (within_s, count), bar in zip(histogram, lengths, strict=True):
        if within_s is not None:
            title = phrase("within %(span)s", span=span(within_s))
        elif last_s is None:
            title = phrase("at any time")
        else:
            title = phrase("after %(span)s", span=span(last_s))
        rows.append({"id": str(within_s), "title": title, "count": count, "bar": bar})
        last_s = within_s
    return rows


def _held_note(held_ms: int) -> Text:
    if held_ms <= 0:
        return ""
    return phrase(
        "The wall clock jumped ahead: what was accepted before waits %(duration)s longer, "
        "so that nothing comes early.",
        duration=duration(held_ms),
    )


def _seconds_until(time_ms: int | None, now_ms: int) -> int | None:
    # Towards zero: what was due half a second ago is due now.
    return None if time_ms is None else int((time_ms - now_ms) / 1000)
