"""Values of what failed: retry, dead letters, resending. Knows no files, clock or door."""

from dataclasses import dataclass
from enum import StrEnum


class RetryPolicy(StrEnum):
    """How long a failed message waits before it comes again."""

    LEVELS = "levels"
    """Level 3 + the number of failures before, as in RocketMQ."""
    EXPONENTIAL = "exponential"
    """5 s, doubled with every failure, 2 h at most; RocketMQ's figures."""
    CUSTOM = "custom"
    """The group's own delays; the last one repeats."""


class Returned(StrEnum):
    """What became of a message that was sent back."""

    RETRY = "retry"
    DEAD_LETTER = "dead_letter"
    ALREADY = "already"
    """It was sent back, or settled, before; nothing is stored a second time."""
    GONE = "gone"
    """The queue does not hold it any more, or not yet."""


class Resend(StrEnum):
    """What became of a dead letter that was to be sent again."""

    SENT = "sent"
    ALREADY = "already"
    GONE = "gone"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedMessage:
    """A message that the reader of a queue failed at. `epoch` is that of the queue's lock."""

    topic: str
    queue: int
    queue_offset: int
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnResult:
    """What became of one message sent back; `due_ms`, wall time, where it will come again."""

    outcome: Returned
    due_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One failed attempt, as `RETRY_HISTORY` of the record keeps it; `number` counts from 1."""

    number: int
    at_ms: int
    reason: str
    client_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendResult:
    """What became of one dead letter: where it went, or what was in the way."""

    queue_offset: int
    outcome: Resend
    topic: str = ""
    queue: int | None = None
    sent_offset: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryCount:
    """How many messages of a group have failed so often and are to come again.

    `in_topic` are in its retry topic, `delayed` on their way there through a delay, `in_place`
    where they failed: given back, not acknowledged in time, or handed out once more. 0 failures
    has what a person sent again to the group.
    """

    failures: int
    in_topic: int = 0
    delayed: int = 0
    in_place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRetries:
    """Counts by number of failures, ascending; where not `is_complete` there may be more."""

    group: str
    counts: tuple[RetryCount, ...]
    is_complete: bool
