"""Which queues of a topic still hold something for somebody. Knows what the engine says; no row."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.engine.api import EngineControl
from apps.engine.types import GroupProgress, MessageModel, TopicSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Messages a group has not committed yet; `group` None where no group reads the topic."""

    group: str | None
    queue: int
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A topic as the engine holds it at one moment.

    `spec` is what the engine obeys, None where it does not know the topic.
    """

    spec: TopicSpec | None
    written_log_offset: int
    synced_log_offset: int
    unread: Sequence[Unread]

    def is_drained(self) -> bool:
        """Say whether every group that reads the topic has committed all of it.

        Without a reader nobody could be overtaken, and nothing is waited for.
        """
        return all(found.group is None for found in self.unread)

    def is_empty_from(self, queue: int) -> bool:
        """Say whether nothing is left to read in this queue and those above.

        What no group has read yet is left: the queue is then kept until one has.
        """
        return all(found.queue < queue for found in self.unread)


def look_at(engine: EngineControl, names: Sequence[str]) -> dict[str, Look]:
    """Ask the engine how far the topics are read, by name. Raises what the engine raises.

    A group reads a topic when it has progress in it, or a member that is subscribed to it. Members
    that broadcast keep their own offsets, which nobody else knows: they are not waited for.
    """
    # The log's end first: whatever the ranges below do not show yet was written behind it, or is
    # not synced.
    status = engine.status()
    topics = engine.catalog.topics
    held = {
        name: {found.queue: found for found in queues}
        for name, queues in engine.topic_ranges(names).items()
    }
    readers = _readers(engine, names)
    return {
        name: Look(
            spec=topics.get(name),
            written_log_offset=status.written_offset,
            synced_log_offset=status.synced_offset,
            unread=[
                found
                for queue, span in sorted(held.get(name, {}).items())
                for found in _unread(
                    readers[name], queue, min_offset=span.min_offset, max_offset=span.max_offset
                )
            ],
        )
        for name in names
    }


# Progress by queue, by group; a group that has none yet is there without.
_Readers = dict[str, dict[int, GroupProgress]]


def _readers(engine: EngineControl, names: Sequence[str]) -> dict[str, _Readers]:
    readers: dict[str, _Readers] = {name: {} for name in names}
    for row in engine.group_progress():
        if row.topic in readers:
            readers[row.topic].setdefault(row.group, {})[row.queue] = row
    for member in engine.members():
        if member.model is not MessageModel.BROADCASTING:
            for wanted in member.subscriptions:
                if wanted.topic in readers:
                    readers[wanted.topic].setdefault(member.group, {})
    return readers


def _unread(readers: _Readers, queue: int, *, min_offset: int, max_offset: int) -> list[Unread]:
    if max_offset <= min_offset:
        return []
    if not readers:
        return [Unread(group=None, queue=queue, lag=max_offset - min_offset)]
    committed = {
        group: queues[queue].committed if queue in queues else min_offset
        for group, queues in sorted(readers.items())
    }
    return [
        Unread(group=group, queue=queue, lag=max_offset - offset)
        for group, offset in committed.items()
        if offset < max_offset
    ]
