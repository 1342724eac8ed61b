"""The fake broker's groups: members, assignments, locks, where to begin. Knows no sockets.

Its rules are those of the contract, in their plainest form: AVG over the members by name, whatever
the members wish, unless a test assigns by hand.
"""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

_EPOCH = 1 << 32


@dataclass
class Delivery:
    """Messages handed out under one token."""

    topic: str
    queue: int
    offsets: set[int]


@dataclass
class Member:
    """What a member said last."""

    topics: list[str]
    document: dict[str, Any]


@dataclass
class Lock:
    """A queue's lock; `expires_s` is by the monotonic clock."""

    owner: str
    epoch: int
    expires_s: float


@dataclass
class FakeGroup:
    """One group. `fixed` is an assignment by hand: queues by topic by client."""

    members: dict[str, Member] = field(default_factory=dict)
    generation: int = _EPOCH
    assignment: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    fixed: dict[str, dict[str, list[int]]] | None = None
    locks: dict[tuple[str, int], Lock] = field(default_factory=dict)
    lease_s: float = 60.0
    is_ordered: bool = False
    epochs: int = 0
    left: set[str] = field(default_factory=set)

    def is_late(self, client: str, document: dict[str, Any]) -> bool:
        """Tell whether a heartbeat is from before its client left, which only then is read."""
        return bool(document["generation"]) and client in self.left - self.members.keys()

    def join(self, client: str, document: dict[str, Any]) -> None:
        topics = [item["topic"] for item in document["subscriptions"]]
        self.members[client] = Member(topics, document)

    def share_out(self, queue_counts: dict[str, int]) -> bool:
        """Compute the assignment; return whether it changed."""
        assignment: dict[str, dict[str, list[int]]] = {client: {} for client in self.members}
        for topic in {topic for member in self.members.values() for topic in member.topics}:
            count = queue_counts.get(topic, 0)
            sharing = []
            for client, member in sorted(self.members.items()):
                if topic not in member.topics:
                    continue
                if member.document["model"] == "BROADCASTING":
                    assignment[client][topic] = list(range(count))
                else:
                    sharing.append(client)
            for queue in range(count):
                if sharing:
                    client = sharing[queue * len(sharing) // count]
                    assignment[client].setdefault(topic, []).append(queue)
        if self.fixed is not None:
            assignment = {client: self.fixed.get(client, {}) for client in self.members}
        if assignment == self.assignment:
            return False
        self.assignment = assignment
        self.generation += 1
        return True

    def owner(self, topic: str, queue: int) -> str | None:
        for client, topics in self.assignment.items():
            if queue in topics.get(topic, []):
                return client
        return None

    def acquire(self, client: str, places: list[dict[str, Any]]) -> dict[str, Any]:
        locked, refused = [], []
        now_s = time.monotonic()
        for item in places:
            key = item["topic"], item["queue"]
            lock = self.locks.get(key)
            assigned = self.owner(*key)
            is_others = lock is not None and lock.owner != client and now_s < lock.expires_s
            if is_others or (self.assignment and assigned != client):
                owner = lock.owner if is_others and lock is not None else str(assigned)
                refused.append({"topic": key[0], "queue": key[1], "owner": owner})
                continue
            if lock is None or lock.owner != client or now_s >= lock.expires_s:
                self.epochs += 1
                lock = self.locks[key] = Lock(client, _EPOCH + self.epochs, 0.0)
            lock.expires_s = now_s + self.lease_s
            locked.append(
                {
                    "topic": key[0], "queue": key[1], "epoch": lock.epoch,
                    "expires_in_ms": int(self.lease_s * 1000),
                }
            )  # fmt: skip
        return {"locked": locked, "refused": refused}

    def release(self, client: str, places: list[dict[str, Any]]) -> dict[str, Any]:
        refused = []
        for item in places:
            key = item["topic"], item["queue"]
            lock = self.locks.get(key)
            if lock is not None and lock.owner == client:
                if item.get("epoch", lock.epoch) == lock.epoch:
                    del self.locks[key]
            elif lock is not None:
                refused.append({"topic": key[0], "queue": key[1], "owner": lock.owner})
        return {"locked": [], "refused": refused}

    def leave(self, client: str) -> None:
        self.members.pop(client, None)
        self.left.add(client)
        self.locks = {key: lock for key, lock in self.locks.items() if lock.owner != client}

    def has_epoch(self, topic: str, queue: int, epoch: int) -> bool:
        lock = self.locks.get((topic, queue))
        return lock is not None and lock.epoch == epoch and time.monotonic() < lock.expires_s

    def refusal_of(
        self,
        topic: str,
        queue: int,
        *,
        client: str,
        epoch: int | None,
        generation: int | None,
        is_read: bool,
    ) -> str | None:
        """Return why a member may not pull or commit, None when it may."""
        demands_lock = self.is_ordered and (is_read or bool(client))
        if (epoch is not None or demands_lock) and (
            epoch is None or not self.has_epoch(topic, queue, epoch)
        ):
            return "lock_lost"
        if generation is not None and self.owner(topic, queue) != client:
            return "stale_generation"
        return None


def new_groups() -> defaultdict[str, FakeGroup]:
    return defaultdict(FakeGroup)
