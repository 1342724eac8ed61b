"""Who has the lock of which queue, for which group. Knows events and entries; no clock, no rules.

Changed by applying journal events only, so a restart arrives at the same table. Keyed by group
first, as RocketMQ's is: groups have nothing to do with each other.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from apps.engine.broker.journal import LockGranted, LockReleased
from apps.engine.broker.lockevents import LockExpired
from apps.engine.grouptypes import LockChange, LockTransition

# What a timer may be late by on a busy loop is not worth a word.
_LATE_MS = 1_000

Place = tuple[str, int]
"""A queue: topic and number."""


@dataclass(slots=True, kw_only=True)
class LockEntry:
    """One lock. `acquired_ms` is wall time; `is_over` says that its end was written down.

    `lease_end_ms`, on the monotonic clock, is the one thing that is in no event: who renews a
    lock changes it here, and whoever loads the table gives each lock a new one.
    """

    owner: str
    epoch: int
    acquired_ms: int
    lease_end_ms: int = 0
    is_over: bool = False


class LockTable:
    """Locks by group, topic and queue."""

    def __init__(self) -> None:
        """Start with no locks."""
        self._groups: dict[str, dict[Place, LockEntry]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return the number of locks, expired ones too."""
        return self._count

    def __iter__(self) -> Iterator[tuple[str, Place, LockEntry]]:
        """Iterate over group, place and lock, in no order; the table may change meanwhile."""
        return iter(
            [(g, place, e) for g, held in self._groups.items() for place, e in held.items()]
        )

    def get(self, group: str, topic: str, queue: int) -> LockEntry | None:
        """Return a lock, expired or not; None when the queue has none for the group."""
        held = self._groups.get(group)
        return None if held is None else held.get((topic, queue))

    def of(self, group: str) -> dict[Place, LockEntry]:
        """Return a copy of the locks of one group."""
        return dict(self._groups.get(group, ()))

    def grant(self, event: LockGranted, *, number: int, at_ms: int) -> LockTransition:
        """Give a lock to the event's owner, over whatever lock there was.

        Returns the line of history; `number` and `at_ms` are those of the event's record.
        """
        held = self._groups.setdefault(event.group, {})
        before = held.get((event.topic, event.queue))
        entry = LockEntry(owner=event.owner, epoch=event.epoch, acquired_ms=at_ms)
        held[event.topic, event.queue] = entry
        self._count += before is None
        previous_owner = "" if before is None else before.owner
        is_taken = previous_owner not in ("", event.owner)
        return LockTransition(
            number=number,
            at_ms=at_ms,
            group=event.group,
            topic=event.topic,
            queue=event.queue,
            change=LockChange.TAKEN_OVER if is_taken else LockChange.ACQUIRED,
            owner=event.owner,
            previous_owner=previous_owner,
            epoch=event.epoch,
            reason=event.reason,
        )

    def release(self, event: LockReleased, *, number: int, at_ms: int) -> LockTransition | None:
        """Remove the lock with the event's epoch; return None when the lock has another one."""
        before = self.get(event.group, event.topic, event.queue)
        if before is None or before.epoch != event.epoch:
            return None
        held = self._groups[event.group]
        del held[event.topic, event.queue]
        self._count -= 1
        if not held:
            del self._groups[event.group]
        return release_line(event, before, number=number, at_ms=at_ms)

    def expire(self, event: LockExpired, *, number: int, at_ms: int) -> LockTransition | None:
        """Return the line that says that a lease has ended; None when the lock has another epoch.

        The lock stays: operators are told who was there last.
        """
        lock = self.get(event.group, event.topic, event.queue)
        if lock is None or lock.epoch != event.epoch:
            return None
        lock.is_over = True
        is_late = event.late_ms >= _LATE_MS
        return LockTransition(
            number=number,
            at_ms=at_ms,
            group=event.group,
            topic=event.topic,
            queue=event.queue,
            change=LockChange.EXPIRED,
            owner="",
            previous_owner=lock.owner,
            epoch=event.epoch,
            reason=f"noticed {event.late_ms} ms after the lease had ended" if is_late else "",
        )

    def dump(self) -> list[list[object]]:
        """Return everything as plain values, for the checkpoint."""
        return [
            [group, topic, queue, entry.owner, entry.epoch, entry.acquired_ms, entry.is_over]
            for group, (topic, queue), entry in self
        ]

    def load(self, rows: Iterable[list[object]]) -> None:
        """Take up what `dump` gave. Raises TypeError or ValueError for anything else."""
        for group, topic, queue, owner, epoch, acquired_ms, *is_over in rows:
            event = LockGranted(
                group=_text(group),
                topic=_text(topic),
                queue=_number(queue),
                owner=_text(owner),
                epoch=_number(epoch),
            )
            self.grant(event, number=0, at_ms=_number(acquired_ms))
            # A checkpoint made before ends were written down says nothing of them.
            self._groups[event.group][event.topic, event.queue].is_over = is_over == [True]


def release_line(
    event: LockReleased, lock: LockEntry, *, number: int, at_ms: int
) -> LockTransition:
    """Return the line of history that says that `lock` was released."""
    return LockTransition(
        number=number,
        at_ms=at_ms,
        group=event.group,
        topic=event.topic,
        queue=event.queue,
        change=event.change,
        owner="",
        previous_owner=lock.owner,
        epoch=event.epoch,
        reason=event.reason,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value
