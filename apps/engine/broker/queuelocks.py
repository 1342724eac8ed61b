"""Lock one: a queue of a group is one client's at a time. Knows the lock table, leases and fences.

The rules are RocketMQ's, with an epoch on top. A lock lasts `lease_ms` on the monotonic clock from
its last renewal. An epoch names one uninterrupted possession: whoever lost the lock, if only for a
moment, comes back with a higher one. Lock two, RocketMQ's mutex around its table, is that one
thread runs all of this: no call sees half of another.

A holder that is not assigned the queue any more keeps its lock until it gives it back or the lease
ends, but cannot renew it: it may finish what it has, and nobody else begins before.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from apps.engine.broker.catalog import Catalog
from apps.engine.broker.fences import Fences
from apps.engine.broker.journal import Event, LockGranted, LockReleased
from apps.engine.broker.lockexpiries import LockExpiries
from apps.engine.broker.lockrefusals import LockRefusals
from apps.engine.broker.locktable import LockEntry, LockTable, Place, release_line
from apps.engine.broker.names import check_client_id, check_group_name
from apps.engine.caretypes import Suspension
from apps.engine.clock import Clock
from apps.engine.errors import EngineError, InvalidArgument, LockLost, Overloaded
from apps.engine.grouptypes import (
    LockAnswer,
    LockChange,
    LockGrant,
    LockRefusal,
    LockTransition,
    QueueLockState,
    QueuePlace,
)
from apps.engine.limits import LOCKS_MAX, PLACES_MAX

_log = logging.getLogger(__name__)

# An expired lock tells operators who was there last; after this long nobody asks any more.
_REMEMBERED_MS = 3_600_000
# One step of forgetting stays as short as one large request.
_FORGOTTEN_MAX = 1_000
_REASON_CHARACTERS_MAX = 1_000


class QueueLocks:
    """Take, renew, give back and force locks; say whose one is."""

    def __init__(
        self,
        table: LockTable,
        record: Callable[[Event], int],
        record_all: Callable[[Sequence[Event]], object],
        *,
        catalog: Catalog,
        clock: Clock,
        fences: Fences,
        lease_ms: int,
        owner_of: Callable[[str, str, int], str | None],
        suspensions: Mapping[tuple[str, str, int], Suspension],
    ) -> None:
        """Rule over `table`, which `record` changes by applying what it writes.

        `owner_of` says to which client a queue of a group is assigned; None where the group has
        no assignment for the topic. `suspensions` are only shown. Every lock found in the table
        gets a whole lease from here on: its holder may still believe in it, so nobody else gets
        it before. One whose end was written down stays over.
        """
        self._table = table
        self._record = record
        self._catalog = catalog
        self._clock = clock
        self._fences = fences
        self._lease_ms = lease_ms
        self._owner_of = owner_of
        self.refused = LockRefusals(clock)
        self._suspensions = suspensions
        for _, _, entry in table:
            entry.lease_end_ms = clock.monotonic_ms() + (0 if entry.is_over else lease_ms)
        self.expiries = LockExpiries(table, record_all, clock=clock)

    def acquire(self, group: str, client_id: str, places: Sequence[QueuePlace]) -> LockAnswer:
        """Take each lock that is free, renew each that is the caller's, refuse the rest.

        Raises, with nothing changed, InvalidName, InvalidArgument, UnknownTopic, UnknownQueue,
        NotPermitted or Overloaded. StoreFull leaves what was granted before: it is the caller's,
        who may ask again.
        """
        self._check(group, client_id, places)
        self._catalog.usable_group(group)
        for place in places:
            self._catalog.readable(place.topic, place.queue)
        added = sum(self._table.get(group, p.topic, p.queue) is None for p in places)
        if len(self._table) + added > LOCKS_MAX:
            raise Overloaded(f"the table has {len(self._table)} locks of {LOCKS_MAX}")
        locked, refused = [], []
        for place in places:
            owner = self._rival(group, client_id, place)
            if owner is not None:
                refused.append(LockRefusal(topic=place.topic, queue=place.queue, owner=owner))
                self.refused.add(group, place.topic, place.queue, owner=owner, client_id=client_id)
                continue
            epoch = self._grant(group, client_id, place)
            locked.append(
                LockGrant(
                    topic=place.topic,
                    queue=place.queue,
                    epoch=epoch,
                    expires_in_ms=self._lease_ms,
                )
            )
        return LockAnswer(locked=tuple(locked), refused=tuple(refused))

    def release(
        self,
        group: str,
        client_id: str,
        places: Sequence[QueuePlace],
        *,
        epochs: Mapping[QueuePlace, int] | None = None,
    ) -> LockAnswer:
        """Give back the caller's locks; one that is another's is refused, a free one is not.

        Where an epoch is given, a lock that is the caller's under another one is left alone: the
        request is an old one, and what it was about is over. Raises InvalidName or InvalidArgument.
        """
        self._check(group, client_id, places)
        refused = []
        for place in places:
            entry = self._table.get(group, place.topic, place.queue)
            if entry is None:
                continue
            if entry.owner == client_id:
                if (epochs or {}).get(place, entry.epoch) == entry.epoch:
                    self._release(group, (place.topic, place.queue), entry, reason="")
            elif self._is_live(entry):
                refused.append(LockRefusal(topic=place.topic, queue=place.queue, owner=entry.owner))
        return LockAnswer(locked=(), refused=tuple(refused))

    def release_all(self, group: str, client_id: str, *, reason: str) -> list[Place]:
        """Give back every lock of a client that is gone; return the queues that got free."""
        mine = [(p, e) for p, e in self._table.of(group).items() if e.owner == client_id]
        for place, entry in mine:
            self._release(group, place, entry, reason=reason)
        return [place for place, _ in mine]

    def force(
        self, group: str, place: QueuePlace, *, reason: str, expected_owner: str | None
    ) -> LockTransition | None:
        """Take a lock from whoever has it; return None when nobody has.

        Raises LockLost, with nothing changed, when the owner is not the one expected.
        """
        entry = self._table.get(group, place.topic, place.queue)
        if entry is None:
            return None
        if expected_owner is not None and entry.owner != expected_owner:
            raise LockLost(
                f"the lock of {place.topic}/{place.queue} is {entry.owner!r}'s, "
                f"not {expected_owner!r}'s"
            )
        event = LockReleased(
            group=group,
            topic=place.topic,
            queue=place.queue,
            epoch=entry.epoch,
            change=LockChange.FORCED,
            reason=reason[:_REASON_CHARACTERS_MAX],
        )
        at_ms = self._clock.wall_ms()
        return release_line(event, entry, number=self._record(event), at_ms=at_ms)

    def taken_away(self, group: str, topic: str, queue: int, *, reason: str) -> list[LockReleased]:
        """Return the event that takes a lock from whoever has it, to be recorded; none for none."""
        entry = self._table.get(group, topic, queue)
        if entry is None:
            return []
        return [
            LockReleased(
                group=group,
                topic=topic,
                queue=queue,
                epoch=entry.epoch,
                change=LockChange.FORCED,
                reason=reason[:_REASON_CHARACTERS_MAX],
            )
        ]

    def check(
        self, group: str, topic: str, queue: int, *, client_id: str, epoch: int | None
    ) -> None:
        """Raise LockLost unless `epoch` is that of the queue's lock and the lease still runs.

        A `client_id` that is given must be the holder's; an epoch alone proves enough, since no
        two grants share one.
        """
        entry = self._table.get(group, topic, queue)
        name = f"the lock of {topic}/{queue}"
        if epoch is None:
            raise LockLost(f"{name} is needed, and no epoch of it was given")
        if entry is None or entry.epoch != epoch or client_id not in ("", entry.owner):
            raise LockLost(f"{name} is not the caller's: epoch {epoch} is over")
        if not self._is_live(entry):
            raise LockLost(f"{name} has expired and was not renewed")

    def is_anothers(self, group: str, topic: str, queue: int, client_id: str) -> bool:
        """Say whether the lock is held, unexpired, by somebody else than `client_id`."""
        entry = self._table.get(group, topic, queue)
        return entry is not None and entry.owner != client_id and self._is_live(entry)

    def queues(self) -> Iterator[tuple[str, str, int]]:
        """Iterate over group, topic and queue of every lock, expired ones too."""
        return ((group, topic, queue) for group, (topic, queue), _ in self._table)

    def state(self, group: str, topic: str, queue: int) -> QueueLockState | None:
        """Return one lock, expired or not; None when there is none."""
        entry = self._table.get(group, topic, queue)
        return None if entry is None else self._state(group, (topic, queue), entry)

    def states(self, group: str | None = None) -> list[QueueLockState]:
        """Return the locks of one group or all, expired ones too, by group, topic and queue."""
        found = (
            list(self._table)
            if group is None
            else [(group, place, entry) for place, entry in self._table.of(group).items()]
        )
        return [self._state(*row) for row in sorted(found, key=lambda row: row[:2])]

    def forget_expired(self) -> int:
        """Drop locks expired for an hour, or at once where the queue is gone; return how many.

        At most 1,000: more are left for the next call.
        """
        self.refused.forget(lambda topic, queue: self._is_there((topic, queue)))
        gone = [row for row in self._table if self._is_forgettable(*row)][:_FORGOTTEN_MAX]
        for group, place, entry in gone:
            self._release(group, place, entry, reason="expired")
        return len(gone)

    def _rival(self, group: str, client_id: str, place: QueuePlace) -> str | None:
        """Return who must be refused for: who holds the lock, else whose the queue is."""
        entry = self._table.get(group, place.topic, place.queue)
        if entry is not None and entry.owner != client_id and self._is_live(entry):
            return entry.owner
        assigned = self._owner_of(group, place.topic, place.queue)
        return None if assigned == client_id else assigned

    def _grant(self, group: str, client_id: str, place: QueuePlace) -> int:
        """Renew a lock that is the client's, or begin a new possession; return its epoch."""
        entry = self._table.get(group, place.topic, place.queue)
        lease_end_ms = self._clock.monotonic_ms() + self._lease_ms
        if entry is not None and entry.owner == client_id and self._is_live(entry):
            entry.lease_end_ms = lease_end_ms
            return entry.epoch
        epoch = self._fences.next()
        self._record(
            LockGranted(
                group=group,
                topic=place.topic,
                queue=place.queue,
                owner=client_id,
                epoch=epoch,
                reason="" if entry is None else "the lease before has expired",
            )
        )
        granted = self._table.get(group, place.topic, place.queue)
        assert granted is not None
        if entry is not None and entry.owner != client_id:
            what = {"group": group, "topic": place.topic, "queue": place.queue, "epoch": epoch}
            extra = {**what, "owner": client_id, "previous_owner": entry.owner}
            _log.warning("lock_taken_over", extra=extra)
        granted.lease_end_ms = lease_end_ms
        self.expiries.watch(group, (place.topic, place.queue), epoch=epoch, at_ms=lease_end_ms)
        return epoch

    def _release(self, group: str, place: Place, entry: LockEntry, *, reason: str) -> None:
        topic, queue = place
        event = LockReleased(
            group=group, topic=topic, queue=queue, epoch=entry.epoch, reason=reason
        )
        self._record(event)

    def _is_live(self, entry: LockEntry) -> bool:
        return self._clock.monotonic_ms() < entry.lease_end_ms

    def _is_forgettable(self, group: str, place: Place, entry: LockEntry) -> bool:
        del group
        expired_ms = self._clock.monotonic_ms() - entry.lease_end_ms
        return expired_ms >= _REMEMBERED_MS or (expired_ms >= 0 and not self._is_there(place))

    def _is_there(self, place: Place) -> bool:
        try:
            self._catalog.readable(*place)
        except EngineError:
            return False
        return True

    def _state(self, group: str, place: Place, entry: LockEntry) -> QueueLockState:
        return QueueLockState(
            group=group,
            topic=place[0],
            queue=place[1],
            owner=entry.owner,
            epoch=entry.epoch,
            acquired_ms=entry.acquired_ms,
            expires_in_ms=entry.lease_end_ms - self._clock.monotonic_ms(),
            suspension=self._suspensions.get((group, *place)),
            lease_ms=self._lease_ms,
        )

    def _check(self, group: str, client_id: str, places: Sequence[QueuePlace]) -> None:
        check_group_name(group)
        check_client_id(client_id)
        if not client_id:
            raise InvalidArgument("a lock is held under a client_id")
        if not 1 <= len(places) <= PLACES_MAX:
            raise InvalidArgument(f"locks of 1 to {PLACES_MAX} queues, not {len(places)}")
