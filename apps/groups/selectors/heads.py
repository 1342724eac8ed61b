"""The message at the head of a group's queue, and what is known of the queue. Live, for people."""

from dataclasses import dataclass

from apps.bridge import engine as bridge
from apps.engine.codec.record import Record, decode_record
from apps.engine.errors import EngineError
from apps.engine.grouptypes import MemberState, QueueBacklog, QueueLockState, QueuePlace
from apps.engine.types import PullRequest, PullStatus
from apps.groups.blocked import BlockedQueue, blocked_queues


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSeen:
    """A queue of a group: backlog, lock and why it does not get on, None where there is none."""

    row: QueueBacklog | None
    lock: QueueLockState | None
    blocked: BlockedQueue | None


def queue_seen(group: str, place: QueuePlace, *, now_ms: int) -> QueueSeen:
    """Return what the engine knows of one queue; raises Busy while it cannot be asked."""
    rows, locks, members = bridge.call(
        lambda engine: (engine.backlog(group), engine.queue_locks(group), engine.members(group))
    )
    here = [row for row in rows if (row.topic, row.queue) == (place.topic, place.queue)]
    held = [lock for lock in locks if (lock.topic, lock.queue) == (place.topic, place.queue)]
    return QueueSeen(
        row=here[0] if here else None,
        lock=held[0] if held else None,
        blocked=_blocked(here, members, now_ms),
    )


def head_record(place: QueuePlace, queue_offset: int) -> Record | None:
    """Return the message at an offset; None where it cannot be read, or not by this process.

    Nobody's progress changes.
    """
    request = PullRequest(
        topic=place.topic, queue=place.queue, queue_offset=queue_offset, messages_max=1
    )
    try:
        result = bridge.call_here(lambda engine: engine.pull(request))
    except EngineError:
        return None
    if result.status is not PullStatus.FOUND or not len(result.block):
        return None
    record = decode_record(result.block.payload, 0)
    return record if record.queue_offset == queue_offset else None


def _blocked(
    rows: list[QueueBacklog], members: list[MemberState], now_ms: int
) -> BlockedQueue | None:
    found = blocked_queues(rows, members, now_ms=now_ms)
    return found[0] if found else None
