"""What the engine says of all groups at one moment, and which of it rows would show. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from apps.engine.grouptypes import MemberState, QueueLockState, Rebalance
from apps.engine.types import MessageModel

Place = tuple[str, int]
"""Topic and queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Members, assignments in force and locks of all groups, and the wall time they are of."""

    taken_ms: int
    members: Sequence[MemberState]
    assigned: Sequence[Rebalance]
    locks: Sequence[QueueLockState]

    def assignments(self) -> Iterator[tuple[Rebalance, str, str, int]]:
        """Yield each queue that is assigned to one member: the assignment, client, topic, queue.

        Members that broadcast have all queues, and are left out.
        """
        sharing = {
            (member.group, member.client_id)
            for member in self.members
            if member.model is not MessageModel.BROADCASTING
        }
        for found in self.assigned:
            for client_id, topics in found.assignment.items():
                if (found.group, client_id) in sharing:
                    for topic, queues in topics.items():
                        for queue in queues:
                            yield found, client_id, topic, queue

    def pictures(self) -> Mapping[str, object]:
        """Return what rows show of each group; equal to another where no row would differ.

        Renewals are not shown: when a member was seen, and until when a lock is held.
        """
        parts: dict[str, list[object]] = {}
        for member in self.members:
            parts.setdefault(member.group, []).append(
                (
                    member.client_id,
                    member.subscriptions,
                    member.model,
                    member.ordered,
                    member.strategy,
                    member.site,
                    member.generation,
                    member.conflicts,
                )
            )
        for found in self.assigned:
            parts.setdefault(found.group, []).append(found.generation)
        for lock in self.locks:
            parts.setdefault(lock.group, []).append(
                (lock.topic, lock.queue, lock.owner, lock.epoch, lock.expires_in_ms < 0)
            )
        return {group: tuple(shown) for group, shown in parts.items()}
