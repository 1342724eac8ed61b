"""Groups as read, live from the engine. What the engine does not know is None."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from apps.bridge import engine as bridge
from apps.core.exceptions import ProblemError
from apps.engine.api import EngineControl
from apps.engine.types import ClientSeen, GroupProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group's progress over all its queues, and the clients that received for it lately."""

    group: str
    topics: Sequence[str]
    queue_count: int
    lag: int
    in_flight: int
    members: Sequence[ClientSeen]


def group_states() -> list[GroupState]:
    """Return every group the engine has progress or members of, by name."""
    progress, members = bridge.call(partial(_known, group=None))
    rows_of: defaultdict[str, list[GroupProgress]] = defaultdict(list)
    for row in progress:
        rows_of[row.group].append(row)
    members_of: defaultdict[str, list[ClientSeen]] = defaultdict(list)
    for member in members:
        members_of[member.group].append(member)
    return [
        _state(group, rows_of[group], members_of[group])
        for group in sorted({*rows_of, *members_of})
    ]


def group_state(group: str) -> GroupState:
    """Return one group; refuse one that the engine knows nothing of as `unknown_group`."""
    progress, members = bridge.call(partial(_known, group=group))
    if not progress and not members:
        raise ProblemError("unknown_group", f"no member of group {group!r} has received anything")
    return _state(group, progress, members)


def queue_progress(group: str) -> list[GroupProgress]:
    """Return a group's progress by topic and queue; empty for an unknown group."""
    progress = bridge.call(lambda engine: engine.group_progress(group))
    return sorted(progress, key=lambda row: (row.topic, row.queue))


def _known(
    engine: EngineControl, *, group: str | None
) -> tuple[list[GroupProgress], list[ClientSeen]]:
    return engine.group_progress(group), engine.clients(group)


def _state(
    group: str, progress: Sequence[GroupProgress], members: Sequence[ClientSeen]
) -> GroupState:
    topics = {row.topic for row in progress}
    topics.update(topic for member in members for topic in member.topics)
    return GroupState(
        group=group,
        topics=sorted(topics),
        queue_count=len(progress),
        lag=sum(row.max_offset - row.committed for row in progress),
        in_flight=sum(row.in_flight for row in progress),
        members=members,
    )
