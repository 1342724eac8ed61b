"""Where a group may be told to go on, and what that means for a queue. Pure.

Knows offsets and words; not where the figures come from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from apps.core.moments import moment
from apps.core.pagination import rfc3339


class TargetKind(StrEnum):
    """How the offset to go on at is said."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    OFFSET = "offset"
    SHIFT = "shift"
    COPY_FROM = "copy_from"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to go on. One of the values belongs to the kind; the others are None.

    `time_ms` is wall time, `offset` of each queue, `shift` so many messages on, or back where
    negative; `copy_from` is a group.
    """

    kind: TargetKind
    time_ms: int | None = None
    offset: int | None = None
    shift: int | None = None
    copy_from: str | None = None

    def text(self) -> str:
        """Return it in words, for people."""
        match self.kind:
            case TargetKind.TIME:
                return f"time {rfc3339(moment(self.time_ms or 0))}"
            case TargetKind.OFFSET:
                return f"offset {self.offset}"
            case TargetKind.SHIFT:
                return f"shift {self.shift:+d}"
            case TargetKind.COPY_FROM:
                return f"copy from {self.copy_from}"
        return self.kind.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a group is in a queue, and what the queue holds."""

    topic: str
    queue: int
    current: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQueue:
    """Where a group is in a queue, and where it would go on.

    It would get `replay` messages again, or never get `skip`. A target that `was_clamped` lay
    outside of what the queue holds.
    """

    topic: str
    queue: int
    current: int
    target: int
    was_clamped: bool = False

    @property
    def replay(self) -> int:
        """Return how many messages come again."""
        return max(0, self.current - self.target)

    @property
    def skip(self) -> int:
        """Return how many messages are passed over."""
        return max(0, self.target - self.current)


def planned(
    standing: Standing, target: Target, found: Mapping[tuple[str, int], int]
) -> PlannedQueue | None:
    """Return what a target means for a queue; None where it says nothing about it.

    `found` has what was looked up: offsets of a time, or of the group to copy.
    """
    wanted: int | None
    match target.kind:
        case TargetKind.EARLIEST:
            wanted = standing.min_offset
        case TargetKind.LATEST:
            wanted = standing.max_offset
        case TargetKind.OFFSET:
            wanted = target.offset
        case TargetKind.SHIFT:
            wanted = standing.current + (target.shift or 0)
        case _:
            wanted = found.get((standing.topic, standing.queue))
    if wanted is None:
        return None
    inside = max(standing.min_offset, min(wanted, standing.max_offset))
    return PlannedQueue(
        topic=standing.topic,
        queue=standing.queue,
        current=standing.current,
        target=inside,
        was_clamped=inside != wanted,
    )
