"""Groups as read, live from the engine. What the engine does not know is None."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from apps.bridge import engine as bridge
from apps.core.exceptions import ProblemError
from apps.engine.types import GroupProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group's progress over all its queues."""

    group: str
    topics: Sequence[str]
    queue_count: int
    lag: int
    in_flight: int


def group_states() -> list[GroupState]:
    """Return every group the engine has progress of, by name."""
    progress = sorted(
        bridge.call(lambda engine: engine.group_progress()), key=lambda row: row.group
    )
    return [
        _state(group, list(rows)) for group, rows in groupby(progress, key=lambda row: row.group)
    ]


def group_state(group: str) -> GroupState:
    """Return one group; refuse one that the engine has no progress of as `unknown_group`."""
    progress = queue_progress(group)
    if not progress:
        raise ProblemError("unknown_group", f"no member of group {group!r} has received anything")
    return _state(group, progress)


def queue_progress(group: str) -> list[GroupProgress]:
    """Return a group's progress by topic and queue; empty for an unknown group."""
    progress = bridge.call(lambda engine: engine.group_progress(group))
    return sorted(progress, key=lambda row: (row.topic, row.queue))


def _state(group: str, progress: Sequence[GroupProgress]) -> GroupState:
    return GroupState(
        group=group,
        topics=sorted({row.topic for row in progress}),
        queue_count=len(progress),
        lag=sum(row.max_offset - row.committed for row in progress),
        in_flight=sum(row.in_flight for row in progress),
    )
