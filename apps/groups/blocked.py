"""Which queues of a group do not get on, and which members have nothing to do. Pure.

An ordered queue stands behind its first message: one that fails again and again holds up all
others. So does a member that holds a queue and does nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from apps.core.phrases import sentence
from apps.engine.grouptypes import BlockedHead, MemberState, QueueBacklog
from apps.engine.types import MessageModel

# A message that failed twice and is tried a third time.
HEAD_ATTEMPTS_BLOCKED = 3
# The lease of a lock: whoever died with one has lost the queue by then.
STALLED_MS_BLOCKED = 60_000


class BlockedBy(StrEnum):
    """Why a queue does not get on."""

    SUSPENDED = "suspended"
    HEAD_FAILS = "head_fails"
    STALLED = "stalled"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedQueue:
    """A queue that does not get on. `queue_offset` is of the message at its head.

    `owner` is who has the queue, None where nobody does. `since_ms` is wall time: since when
    nothing was committed, and None where that is not known. `attempts` is how often the head was
    tried, None where nobody counted. `detail` is what its owner says of it.
    """

    group: str
    topic: str
    queue: int
    queue_offset: int
    owner: str | None
    since_ms: int | None
    reason: BlockedBy
    attempts: int | None
    detail: str
    lag: int


def blocked_queues(
    backlog: Iterable[QueueBacklog], members: Iterable[MemberState], *, now_ms: int
) -> list[BlockedQueue]:
    """Return the queues that do not get on, by group, topic and queue.

    One is blocked when an operator has suspended it, when its head is tried for the third time, or
    when an owner has committed nothing for a minute although there is something to do.
    """
    heads = _heads(members)
    found = []
    for row in backlog:
        if row.max_offset <= row.committed and row.suspension is None:
            continue
        head = heads.get((row.group, row.topic, row.queue, row.committed))
        attempts = max(
            (
                known
                for known in (row.head_attempts, head.attempts if head else None)
                if known is not None
            ),
            default=None,
        )
        reason = _reason(row, attempts)
        if reason is not None:
            found.append(
                BlockedQueue(
                    group=row.group,
                    topic=row.topic,
                    queue=row.queue,
                    queue_offset=row.committed,
                    owner=row.owner,
                    since_ms=None if row.stalled_ms is None else now_ms - row.stalled_ms,
                    reason=reason,
                    attempts=attempts,
                    detail=_detail(row, head),
                    lag=row.max_offset - row.committed,
                )
            )
    return sorted(found, key=lambda queue: (queue.group, queue.topic, queue.queue))


def hushed(queue: BlockedQueue) -> BlockedQueue:
    """Return a queue without what its owner says of it; what an operator says stays."""
    return queue if queue.reason is BlockedBy.SUSPENDED else replace(queue, detail="")


def idle_members(members: Iterable[MemberState]) -> list[str]:
    """Return the client ids of members that share queues and got none, in order.

    There are more members than queues, or the strategy has none for them.
    """
    return sorted(member.client_id for member in members if is_idle(member))


def is_idle(member: MemberState) -> bool:
    """Say whether a member shares queues and got none."""
    return (
        member.model is MessageModel.CLUSTERING
        and bool(member.subscriptions)
        and not any(member.assignment.values())
    )


def _heads(
    members: Iterable[MemberState],
) -> Mapping[tuple[str, str, int, int], BlockedHead]:
    return {
        (member.group, head.topic, head.queue, head.queue_offset): head
        for member in members
        for head in member.blocked
    }


def _detail(row: QueueBacklog, head: BlockedHead | None) -> str:
    if row.suspension is not None:
        return sentence(
            "suspended by %(by)s: %(reason)s", by=row.suspension.by, reason=row.suspension.reason
        )
    return head.reason if head else ""


def _reason(row: QueueBacklog, attempts: int | None) -> BlockedBy | None:
    if row.suspension is not None:
        return BlockedBy.SUSPENDED
    if attempts is not None and attempts >= HEAD_ATTEMPTS_BLOCKED:
        return BlockedBy.HEAD_FAILS
    has_owner = row.owner is not None
    if has_owner and row.stalled_ms is not None and row.stalled_ms >= STALLED_MS_BLOCKED:
        return BlockedBy.STALLED
    return None
