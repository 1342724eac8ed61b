"""Values of what is delivered later: levels, any delay, recalls. Knows no files, clock or door."""

from dataclasses import dataclass, field
from enum import StrEnum


class Recall(StrEnum):
    """The three honest answers to one who wants a delayed message back."""

    CANCELLED = "cancelled"
    """It will not be delivered, now or because it was cancelled before."""
    DELIVERED = "delivered"
    """It was delivered, when it was due or because somebody sent it before its time."""
    UNKNOWN = "unknown"
    """The handle is none of this store's, or too old for the store to know what became of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayLevelState:
    """One delay level: how much waits in it, and how far its deliveries are.

    `delivered` and `max_offset` are queue offsets of the level's queue: what lies between waits.
    `head_due_ms` is the wall time at which the first of them is due, None where nothing waits.
    `late_ms` is how late the last delivery was, None before the first since the start.
    """

    level: int
    delay_ms: int
    delivered: int
    max_offset: int
    head_due_ms: int | None = None
    late_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsDelivered:
    """What one bounded step of delivering due levels did, and whether more is due at once."""

    delivered: int
    more: bool
    levels: tuple[DelayLevelState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedMessage:
    """A message that waits for its time. `handle` is its recall handle, None where it has none.

    `level` is None for a message with a delay of its own; `message_id` and `keys` are as in the
    record. `number` is its place: in order of acceptance, and unique among those of its kind.
    """

    number: int
    topic: str
    queue: int
    message_id: str
    due_ms: int
    size_bytes: int
    level: int | None = None
    handle: str | None = None
    tag: str = ""
    keys: str = ""
    born_time_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedPage:
    """Some of the delayed messages, ordered by due time; `cursor` asks for the next ones."""

    messages: tuple[DelayedMessage, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedCopies:
    """What waits in delay levels of one message: itself or retries of it, the newest first.

    `is_complete` says that there can be no others.
    """

    messages: tuple[DelayedMessage, ...] = ()
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayStatus:
    """Counters of messages with a delay of their own, since the store was opened but `pending`.

    `histogram` counts what is pending by how far off it is: `(seconds, count)`, each count for what
    is due within so many seconds and not within fewer; the last one's seconds are None.
    `late_ms` is how late the last delivery was. `clock_held_ms` is by how much deliveries are held
    back after the wall clock jumped ahead.
    """

    pending: int = 0
    delivered: int = 0
    cancelled: int = 0
    sent_now: int = 0
    without_topic: int = 0
    """Due messages, of any delay or level, whose topic was deleted meanwhile."""
    next_due_ms: int | None = None
    late_ms: int | None = None
    clock_held_ms: int = 0
    histogram: tuple[tuple[int | None, int], ...] = field(default_factory=tuple)
