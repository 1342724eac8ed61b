"""What groups have left to do, queue by queue, for operators. Knows all of a group's state.

Changes nothing and never waits for the disk: what would need it is unknown, None. Whether a queue
stands still is seen by comparing with the listing before, so a sampler that asks every few seconds
makes it that exact.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from apps.engine.broker.accesslock import AccessLocks
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.inflight import LeaseEntry
from apps.engine.broker.members import Members
from apps.engine.broker.progress import QueueProgress
from apps.engine.broker.queuelocks import QueueLocks
from apps.engine.broker.retryqueues import RetryQueues
from apps.engine.broker.state import ConsumerState
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.clock import Clock
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import QueueDamaged, StoreDamaged
from apps.engine.grouptypes import BlockedHead, QueueBacklog
from apps.engine.types import MessageModel

_Key = tuple[str, str, int]
_Heads = dict[tuple[str, int], BlockedHead]


@dataclass(slots=True, kw_only=True, eq=False)
class _Watch:
    """A queue as it was listed last. `since_ms` is of the monotonic clock.

    Since then `committed` has been what it is and there was something to do. `stored_ms` is when
    the message there was stored, where that is known.
    """

    committed: int
    since_ms: int
    stored_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One listing: both clocks, and by group the heads that its members cannot get on with."""

    now_ms: int
    wall_ms: int
    heads: dict[str, _Heads]


class Backlog:
    """Lists backlogs, and remembers of each queue how it was listed last."""

    def __init__(
        self,
        *,
        state: ConsumerState,
        queues: QueueSet,
        catalog: Catalog,
        locks: QueueLocks,
        access: AccessLocks,
        members: Members,
        times: StoreTimes,
        retries: RetryQueues,
        clock: Clock,
        owner_of: Callable[[str, str, int], str | None],
    ) -> None:
        """Bind to a store."""
        self._state = state
        self._queues = queues
        self._catalog = catalog
        self._locks = locks
        self._access = access
        self._members = members
        self._times = times
        self._retries = retries
        self._clock = clock
        self._owner_of = owner_of
        self._watches: dict[_Key, _Watch] = {}

    def rows(self, group: str | None = None) -> list[QueueBacklog]:
        """Return the backlog of one group or all, by group, topic and queue.

        A group that reads, locks or subscribes to any queue of a topic is listed with all of
        them, except for members that are broadcast to: how far they are is theirs to know. Its
        retry topic is listed once it held a message.
        """
        pairs = sorted(self._pairs(group))
        look = _Look(
            now_ms=self._clock.monotonic_ms(),
            wall_ms=self._clock.wall_ms(),
            heads={name: self._heads(name) for name in {name for name, _ in pairs}},
        )
        # A row costs 13 us, so 10,000 queues hold the loop for 130 ms.
        rows = [
            self._row((name, topic, number), look)
            for name, topic in pairs
            for number in range(self._catalog.topic(topic).queue_count)
        ]
        if group is None:
            listed = {(row.group, row.topic, row.queue) for row in rows}
            for key in [key for key in self._watches if key not in listed]:
                del self._watches[key]
        return rows

    def _pairs(self, group: str | None) -> set[tuple[str, str]]:
        """Return the groups and topics to list."""
        found = set(self._state.read_topics)
        found |= {(name, topic) for name, topic, _ in self._access.queues()}
        found |= {(name, topic) for name, topic, _ in self._locks.queues()}
        found |= {(name, topic) for name, topic, _ in self._state.operators.suspensions}
        found |= {
            (name, wanted.topic)
            for name in list(self._members.groups())
            for member in self._members.of(name).values()
            if member.model is MessageModel.CLUSTERING
            for wanted in member.subscriptions
        }
        topics = self._catalog.snapshot.topics
        return self._retries.pairs(group) | {
            (name, topic)
            for name, topic in found
            if topic in topics and (group is None or name == group)
        }

    def _heads(self, group: str) -> _Heads:
        """Return what members say of queues they cannot get on with; most attempts win."""
        heads: _Heads = {}
        for member in self._members.of(group).values():
            for head in member.blocked:
                place = (head.topic, head.queue)
                if place not in heads or heads[place].attempts < head.attempts:
                    heads[place] = head
        return heads

    def _row(self, key: _Key, look: _Look) -> QueueBacklog:
        group, topic, number = key
        queue = self._queues.queue(topic, number)
        progress = self._state.progress.get(key)
        committed = cursor = queue.min_offset
        in_flight, attempts = 0, []
        if progress is not None:
            committed, cursor = progress.floor, progress.cursor
            for entry in self._entries(progress):
                in_flight += len(entry.offsets) if entry.is_out else 0
                if len(entry.offsets) and entry.offsets[0] == committed:
                    attempts.append(entry.attempt)
        head = look.heads[group].get((topic, number))
        if head is not None and head.queue_offset == committed:
            attempts.append(head.attempts)
        delivered = max(cursor, self._access.delivered(*key) or 0)
        stalled_ms, age_ms = self._watch(key, queue, committed, look)
        lock = self._locks.state(*key)
        return QueueBacklog(
            group=group,
            topic=topic,
            queue=number,
            committed=committed,
            delivered=delivered,
            max_offset=max(queue.visible, queue.min_offset),
            in_flight=in_flight + delivered - cursor,
            oldest_age_ms=age_ms,
            stalled_ms=stalled_ms,
            head_attempts=max(attempts) if attempts else None,
            owner=self._owner_of(*key) or None,
            lock_epoch=None if lock is None else lock.epoch,
            lock_expires_in_ms=None if lock is None else lock.expires_in_ms,
            lost=self._state.lost.get(key, 0),
            suspension=self._state.operators.suspensions.get(key),
            refusals=self._locks.refused.total(*key),
        )

    def _entries(self, progress: QueueProgress) -> Iterator[LeaseEntry]:
        for lease in progress.leases:
            entry = self._state.leases.get(lease)
            if entry is not None:
                yield entry

    def _watch(
        self, key: _Key, queue: ConsumeQueue, committed: int, look: _Look
    ) -> tuple[int | None, int | None]:
        """Return for how long the group has stood still, and how old its oldest message is."""
        watch = self._watches.get(key)
        has_moved = watch is None or watch.committed != committed
        if watch is None or has_moved:
            watch = self._watches[key] = _Watch(committed=committed, since_ms=look.now_ms)
        if not queue.min_offset <= committed < queue.visible:
            watch.since_ms = look.now_ms
            return None, None
        if watch.stored_ms is None:
            # Where it is cold or damaged, a later listing finds it, once somebody has read it.
            with suppress(ColdRead, StoreDamaged, QueueDamaged):
                watch.stored_ms = self._times.of(queue, committed, wait=False)
        # The wall clock may have been set back since the message was stored.
        age_ms = None if watch.stored_ms is None else max(0, look.wall_ms - watch.stored_ms)
        if has_moved:
            return None, age_ms
        # Nobody can have stood still before there was anything to do.
        stalled_ms = look.now_ms - watch.since_ms
        return stalled_ms if age_ms is None else min(stalled_ms, age_ms), age_ms
