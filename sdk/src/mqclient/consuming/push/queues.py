"""The queues of one member: how they come, are lost, and what is asked about them.

Pure: knows no sockets, threads or loops; its owner keeps one lock around everything.
"""

import logging
from collections.abc import Iterator, Mapping
from itertools import islice

from mqclient.clock import Clock
from mqclient.consuming.errands import RETRY_S, Errand
from mqclient.consuming.membership import Membership
from mqclient.consuming.push.begins import Beginner, GroupBeginner, OwnBeginner
from mqclient.consuming.push.commits import Committer
from mqclient.consuming.push.concurrent import ConcurrentDispatch
from mqclient.consuming.push.farewells import Farewells
from mqclient.consuming.push.locks import LockKeeper
from mqclient.consuming.push.ordered import OrderedDispatch
from mqclient.consuming.push.reading import Reading
from mqclient.consuming.push.returning import Returning
from mqclient.consuming.push.settings import PushSettings
from mqclient.consuming.push.snapshot import Snapshot
from mqclient.consuming.push.timers import Timers
from mqclient.errors import InvalidArgument, LockLost, MqError, StaleGeneration
from mqclient.protocol.calls import Call, Calls
from mqclient.values import BlockedHead, TopicQueue
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")

# A heartbeat names at most so many blocked queues, each with a reason of one line.
_BLOCKED_MAX = 100
_REASON_CHARACTERS_MAX = 200


class Queues:
    """Snapshots by place, and the parts that work on them."""

    def __init__(
        self, settings: PushSettings, calls: Calls, *, clock: Clock, kept: Mapping[TopicQueue, int]
    ) -> None:
        self.settings = settings
        self.snapshots: dict[TopicQueue, Snapshot] = {}
        self.timers = Timers()
        self._clock = clock
        self.membership = Membership(
            settings.identity, calls, clock=clock, on_assigned=self._assigned, blocked=self.blocked
        )
        self.membership.subscribe(settings.wanted)
        self.locks = self._lock_keeper(calls) if settings.is_locking else None
        self.returning = Returning(
            settings,
            calls,
            generation=lambda: self.membership.generation,
            owner=self,
            on_returned=self._returned,
            on_kept=self._kept,
        )
        self.dispatch = (
            OrderedDispatch(
                settings,
                snapshots=self.snapshots,
                timers=self.timers,
                locks=self.locks,
                attempts_max=self._attempts_max,
                send_back=self.returning.add,
            )
            if settings.ordered
            else ConcurrentDispatch(
                settings,
                snapshots=self.snapshots,
                timers=self.timers,
                send_back=self.returning.add,
            )
        )
        self.reading = Reading(
            settings,
            calls,
            snapshots=self.snapshots,
            locks=self.locks,
            generation=lambda: self.membership.generation,
            owner=self,
        )
        self.committer = None if settings.is_broadcasting else self._committer(calls)
        self._farewells = self._farewells_of(calls, self.committer)
        self._beginner: Beginner = (
            OwnBeginner(settings, calls, waiting=self._unbegun, kept=kept)
            if settings.is_broadcasting
            else GroupBeginner(settings, calls, waiting=self._unbegun)
        )

    def errands(self) -> list[Errand]:
        """Return what is asked besides messages, the most pressing first."""
        every = (
            self.membership, self.locks, self._farewells, self._beginner, self.returning,
            self.committer,
        )  # fmt: skip
        return [errand for errand in every if errand is not None]

    def positions(self) -> dict[TopicQueue, int]:
        """Return the smallest unfinished offset of each queue that has begun."""
        return {
            place: offset
            for place, snapshot in self.snapshots.items()
            if (offset := snapshot.commit_offset) is not None
        }

    def blocked(self) -> list[BlockedHead]:
        """Return the queues whose first unfinished message has failed, or takes too long."""
        return list(islice(self._blocked(), _BLOCKED_MAX))

    def revive(self, place: TopicQueue, *, is_skipping: bool) -> None:
        """Let a queue that stands still go on; raise InvalidArgument for one that does not."""
        snapshot = self.snapshots.get(place)
        if snapshot is None or not snapshot.is_exhausted or snapshot.is_returning:
            raise InvalidArgument(f"{place} does not stand still here")
        if is_skipping:
            snapshot.finish(snapshot.take_fresh(1))
        snapshot.is_exhausted = False
        snapshot.attempts.clear()
        self.dispatch.line_up(snapshot)

    def settled(self, snapshot: Snapshot) -> None:
        """Take that a listener is done with messages of a queue."""
        if snapshot.is_dropped and not snapshot.running and self._farewells is not None:
            self._farewells.settled(snapshot)

    def last_words(self) -> list[list[Call[None]]]:
        """Return what is still to be committed: requests, and each again queue by queue."""
        if self.committer is None or self._farewells is None:
            return []
        kinds = (self.committer.uncommitted(), self._farewells.uncommitted())
        call = self.committer.call
        return [[call(kind), *(call([entry]) for entry in kind)] for kind in kinds if kind]

    def lock_lost(self, snapshot: Snapshot) -> None:
        """Forget what was read under an epoch the broker refused, and ask for a new one."""
        if self.locks is not None and not snapshot.is_dropped:
            self.locks.lose(snapshot.place)

    def stale(self, snapshot: Snapshot) -> None:
        """Give up a queue that is another's, and ask for the assignment.

        Where the assignment still names it, it begins anew after a while.
        """
        if snapshot.is_dropped:
            return
        self._lose(snapshot.place)
        not_before_s = self._clock.steady_s() + RETRY_S
        self._gain(snapshot.place, not_before_s=not_before_s)
        self.timers.at(not_before_s, self._beginner.look)
        self.membership.hurry()

    def replace(self, snapshot: Snapshot, offset: int) -> None:
        """Forget what was read beyond a queue's end; go on at the offset."""
        snapshot.drop()
        self._gain(snapshot.place, epoch=snapshot.epoch).start(offset)

    def _attempts_max(self) -> int | None:
        """Return this member's limit, else the group's, which counts attempts after the first."""
        if self.settings.attempts_max is not None:
            return self.settings.attempts_max
        retry_max = self.membership.retry_max
        return None if retry_max is None else retry_max + 1

    def _assigned(self, places: frozenset[TopicQueue]) -> None:
        topics = {item.topic for item in self.settings.wanted}
        for place in sorted(self.snapshots.keys() - places):
            self._lose(place)
        for place in sorted(places - self.snapshots.keys()):
            if place.topic in topics:
                self._gain(place)

    def _returned(self, snapshot: Snapshot, messages: list[Message]) -> None:
        self.dispatch.returned(snapshot, messages)

    def _kept(self, snapshot: Snapshot, messages: list[Message], error: MqError) -> None:
        self.dispatch.kept(snapshot, messages, error, self._clock.steady_s())

    def _gain(
        self, place: TopicQueue, *, epoch: int | None = None, not_before_s: float = 0.0
    ) -> Snapshot:
        snapshot = self.snapshots[place] = Snapshot(place, epoch=epoch)
        snapshot.not_before_s = not_before_s
        # While the queue is still being given up here, its old lock must not be asked for again.
        if not self._is_leaving(place):
            self._admit(place)
        return snapshot

    def _admit(self, place: TopicQueue) -> None:
        if self.locks is not None:
            self.locks.want(place)
        self._beginner.look()

    def _lose(self, place: TopicQueue) -> None:
        snapshot = self.snapshots.pop(place)
        snapshot.drop()
        if self._farewells is None:
            return
        # A queue that comes and goes while it is still being given up has nothing to add to that.
        if not self._is_leaving(place):
            self._farewells.add(snapshot, self._clock.steady_s())

    def _gone(self, place: TopicQueue) -> None:
        if place in self.snapshots:
            self._admit(place)

    def _is_leaving(self, place: TopicQueue) -> bool:
        return self._farewells is not None and place in self._farewells

    def _granted(self, place: TopicQueue, epoch: int) -> None:
        # Another may have had the queue since the last epoch: nothing read under it counts.
        snapshot = self.snapshots.get(place)
        if snapshot is not None and snapshot.epoch != epoch:
            snapshot.drop()
            self._gain(place, epoch=epoch, not_before_s=snapshot.not_before_s)

    def _renewed(self, place: TopicQueue) -> None:
        self.dispatch.line_up(self.snapshots.get(place))
        # A grant whose answer came too late to be trusted has let nothing begin.
        self._beginner.look()

    def _lock_gone(self, place: TopicQueue) -> None:
        snapshot = self.snapshots.get(place)
        if snapshot is not None:
            logger.warning("%s: its lock is lost; what was read of it is forgotten", place)
            snapshot.drop()
            self._gain(place)

    def _unbegun(self, now_s: float) -> list[Snapshot]:
        return [
            snapshot
            for place, snapshot in self.snapshots.items()
            if snapshot.position is None
            # Asked no earlier than it is read: what the owner of now still commits is not repeated.
            and snapshot.not_before_s <= now_s
            and not self._is_leaving(place)
            and not (self.committer is not None and self.committer.is_telling(place))
            and (self.locks is None or self.locks.trusted_epoch(place, now_s) is not None)
        ]

    def _commit_refused(self, snapshot: Snapshot, error: MqError) -> None:
        if isinstance(error, LockLost):
            self.lock_lost(snapshot)
        elif isinstance(error, StaleGeneration):
            self.stale(snapshot)

    def _blocked(self) -> Iterator[BlockedHead]:
        for place, snapshot in self.snapshots.items():
            head = snapshot.commit_offset
            if head is None:
                continue
            attempts = snapshot.attempts.get(head, 0) + snapshot.is_overdue
            if attempts:
                yield BlockedHead(
                    topic=place.topic,
                    queue=place.queue,
                    queue_offset=head,
                    attempts=attempts,
                    reason=snapshot.blocked_reason[:_REASON_CHARACTERS_MAX],
                )

    def _lock_keeper(self, calls: Calls) -> LockKeeper:
        return LockKeeper(
            self.settings,
            calls,
            clock=self._clock,
            on_granted=self._granted,
            on_lost=self._lock_gone,
            on_renewed=self._renewed,
        )

    def _committer(self, calls: Calls) -> Committer:
        return Committer(
            self.settings,
            calls,
            snapshots=self.snapshots,
            generation=lambda: self.membership.generation,
            on_refused=self._commit_refused,
            on_last=self._last_said,
            on_told=lambda: self._beginner.look(),
            now_s=self._clock.steady_s(),
        )

    def _last_said(self, snapshot: Snapshot) -> None:
        if self._farewells is not None:
            self._farewells.committed(snapshot)

    def _farewells_of(self, calls: Calls, committer: Committer | None) -> Farewells | None:
        if committer is None:
            return None
        return Farewells(
            self.settings,
            calls,
            committer=committer,
            locks=self.locks,
            timers=self.timers,
            on_gone=self._gone,
        )
