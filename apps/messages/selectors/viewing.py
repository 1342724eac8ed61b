"""One message with what is about it: its neighbours, who has passed it, its copies.

Reads the log as everybody may, for no group: nothing is handed out, locked or counted.
"""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from apps.bridge import engine as bridge
from apps.deadletters.records import records_of
from apps.engine.api import EngineAPI
from apps.engine.errors import Refused, UnknownQueue, UnknownTopic
from apps.engine.limits import QUEUE_COUNT_MAX
from apps.engine.searchtypes import SearchRequest, SearchResult
from apps.engine.types import GroupProgress, PullRequest, PullResult, QueueRange
from apps.messages.asked import Asked, Meaning
from apps.messages.seen import Role, Seen
from apps.messages.selectors.finding import Found, Wanted, find

_OFFSET_MAX = 2**62
_COPIES_MAX = 100


class Passed(StrEnum):
    """Where a group is, seen from a message."""

    DONE = "done"
    """All up to it is settled."""
    GIVEN = "given out"
    """It was handed out: it is with a consumer, is to come again, or is settled ahead of others."""
    AHEAD = "not yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A group that reads the queue, and its copies of the message: retries and dead letters."""

    group: str
    passed: Passed
    committed: int
    delivered: int
    retries: int
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is about a message. An offset is None where there is no such message."""

    range: QueueRange | None
    previous: int | None
    next: int | None
    readers: Sequence[Reader]
    copies: Found


def message_at(topic: str, queue: int, queue_offset: int) -> Seen | None:
    """Return the message at a place; None where there is none that may be seen.

    Raises Busy while the engine cannot be asked, NotPermitted, and StoreDamaged for a message that
    is not what was written.
    """
    if queue >= QUEUE_COUNT_MAX or queue_offset > _OFFSET_MAX:
        return None
    request = SearchRequest(topic=topic, queue=queue, queue_offset=queue_offset, messages_max=1)

    def search(engine: EngineAPI) -> Awaitable[SearchResult]:
        return engine.search(request)

    try:
        found = bridge.call_here(search)
    except (UnknownTopic, UnknownQueue):
        return None
    return next((Seen(record) for block in found.blocks for record in records_of(block)), None)


def surroundings(seen: Seen) -> Surroundings:
    """Return what is about a message. Raises Busy while the engine cannot be asked."""
    record = seen.record
    origin = seen.origin
    found = _copies(origin.topic, origin.message_id)
    return Surroundings(
        range=range_of(record.topic, record.queue),
        previous=_previous(seen),
        next=_next(seen),
        readers=_readers(seen, found),
        copies=found,
    )


def _copies(topic: str, message_id: str) -> Found:
    asked = Asked(meaning=Meaning.ID, text=message_id)
    try:
        return find(Wanted(asked=asked, topic=topic, messages_max=_COPIES_MAX))
    except Refused:
        # The topic it came from may be gone.
        return find(Wanted(asked=asked, messages_max=_COPIES_MAX))


def range_of(topic: str, queue: int) -> QueueRange | None:
    """Return what a queue holds; None where there is no such. Raises Busy."""
    held = bridge.call(lambda engine: engine.own_ranges(topic)).get(topic)
    if held is None:
        try:
            held = bridge.call(lambda engine: engine.queue_ranges(topic))
        except UnknownTopic:
            return None
    return next((one for one in held if one.queue == queue), None)


def _previous(seen: Seen) -> int | None:
    record = seen.record
    request = SearchRequest(
        topic=record.topic,
        queue=record.queue,
        before=record.log_offset,
        messages_max=1,
        bytes_max=1,
    )

    def search(engine: EngineAPI) -> Awaitable[SearchResult]:
        return engine.search(request)

    found = bridge.call_here(search)
    return next((one.queue_offset for block in found.blocks for one in records_of(block)), None)


def _next(seen: Seen) -> int | None:
    record = seen.record
    request = PullRequest(
        topic=record.topic,
        queue=record.queue,
        queue_offset=record.queue_offset + 1,
        messages_max=1,
        bytes_max=1,
    )
    found = bridge.call_here(partial(_pull, request=request))
    return next((one.queue_offset for one in records_of(found.block)), None)


def _pull(engine: EngineAPI, *, request: PullRequest) -> Awaitable[PullResult]:
    return engine.pull(request)


def _readers(seen: Seen, copies: Found) -> list[Reader]:
    """Return the groups that read the queue, and those that have copies, by name."""
    record = seen.record
    progress = {
        one.group: one
        for one in bridge.call(lambda engine: engine.group_progress())
        if (one.topic, one.queue) == (record.topic, record.queue)
    }
    return [_reader(one, record.queue_offset, copies) for _, one in sorted(progress.items())]


def _reader(progress: GroupProgress, queue_offset: int, copies: Found) -> Reader:
    if progress.committed > queue_offset:
        passed = Passed.DONE
    else:
        passed = Passed.GIVEN if progress.delivered > queue_offset else Passed.AHEAD
    roles = [one.role for one in copies.messages if one.group == progress.group]
    return Reader(
        group=progress.group,
        passed=passed,
        committed=progress.committed,
        delivered=progress.delivered,
        retries=roles.count(Role.RETRY),
        dead_letters=roles.count(Role.DEAD_LETTER),
    )
