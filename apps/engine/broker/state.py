"""Consumer state: each group's progress, leases, locks and queues, changed by journal events only.

Knows what an event means; not when to make one, nor how it is kept. Live changes and replay after a
restart go through the same `apply`, so they cannot disagree.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from apps.engine.broker.assigned import AssignmentTable
from apps.engine.broker.careevents import (
    ClockJumped,
    GivenUpSent,
    HalfChecked,
    HalfEnded,
    HalfStored,
    PutOff,
    Resent,
    Retired,
    SentBack,
    Sequenced,
    TimerDone,
)
from apps.engine.broker.failurestate import FailureState
from apps.engine.broker.history import History
from apps.engine.broker.inflight import LeaseEntry, Leases
from apps.engine.broker.journal import (
    FRESH,
    Assigned,
    Commit,
    Deliver,
    Event,
    Extend,
    LockGranted,
    LockReleased,
    Renew,
    Return,
    Settle,
    Trim,
    offsets_of,
    runs_of,
)
from apps.engine.broker.liteevents import LiteExpired, LiteForgotten
from apps.engine.broker.lockevents import LockExpired, ReadInOrder
from apps.engine.broker.locktable import LockTable
from apps.engine.broker.operatorevents import HeadPassed, OffsetReset, QueueSuspended
from apps.engine.broker.operatorstate import OperatorState
from apps.engine.broker.progress import QueueProgress
from apps.engine.broker.repeatstate import RepeatState
from apps.engine.broker.timerstate import TimerState
from apps.engine.broker.transactionstate import TransactionState
from apps.engine.clock import Clock
from apps.engine.codec.litenames import is_lite
from apps.engine.failuretypes import Attempt
from apps.engine.limits import INVISIBLE_MS_MAX

Key = tuple[str, str, int]

# Groups that read in order without members; above it the one found first is forgotten.
IN_ORDER_MAX = 10_000


class LiteListener(Protocol):
    """Who keeps sums of how far groups are in lite topics."""

    def begun(self, progress: QueueProgress) -> None:
        """Hear that a group is somewhere in a lite topic."""
        ...

    def moved(self, progress: QueueProgress) -> None:
        """Hear that it may be elsewhere, or has other messages out."""
        ...

    def ended(self, progress: QueueProgress) -> None:
        """Hear that it is nowhere in it any more."""
        ...


class ConsumerState:
    """Progress by group, topic and queue; leases by number; floors by topic and queue.

    `lost` counts the messages that retention deleted before the group had settled them.

    Locks and assignments are tables of their own, and their changes are lines of the history.
    """

    def __init__(self, clock: Clock) -> None:
        """Start with no groups."""
        self._clock = clock
        self.progress: dict[Key, QueueProgress] = {}
        # Groups and topics of that, without lite topics: whoever lists them asks every second.
        self.read_topics: dict[tuple[str, str], None] = {}
        self.lite_listener: LiteListener | None = None
        self.leases = Leases()
        self.floors: dict[tuple[str, int], int] = {}
        self.lost: dict[Key, int] = {}
        self._of_places: dict[tuple[str, int], dict[str, QueueProgress]] = {}
        self.locks = LockTable()
        self.assignments = AssignmentTable()
        self.history = History()
        self.failures = FailureState()
        self.timers = TimerState()
        self.transactions = TransactionState(clock)
        self.repeats = RepeatState()
        self.operators = OperatorState()
        self.in_order: dict[str, None] = {}
        # Lite topics that are gone and may have records yet, all below a log offset. One that had
        # a message since stays here until it is gone again.
        self.gone_lites: dict[str, int] = {}

    def apply(self, event: Event, *, number: int, at_ms: int) -> None:
        """Carry out an event whose record has queue offset `number` in the journal.

        `at_ms` is the wall clock's reading when the event was made.
        """
        match event:
            case Deliver():
                self._deliver(event, number, at_ms)
            case Settle():
                entry = self.leases.get(event.lease)
                if entry is not None:
                    entry.progress.settle(offsets_of(event.runs))
                    self.leases.settle(entry, event.runs)
                    self._moved(entry.progress)
            case Return() | Extend() | PutOff():
                self._move(event, number, at_ms)
            case Renew():
                entry = self.leases.get(event.lease)
                if entry is not None:
                    due_ms = self._due_ms(event.until_ms, at_ms)
                    self.leases.renew(entry, due_ms=due_ms, until_wall_ms=event.until_ms)
            case Commit():
                progress = self.of(event.group, event.topic, event.queue, start=event.queue_offset)
                self._drop_leases(progress)
                progress.jump(event.queue_offset)
                self._moved(progress)
                self.failures.committed(event.group, event.topic, event.queue, event.queue_offset)
                self.operators.committed(
                    (event.group, event.topic, event.queue), event.queue_offset
                )
            case Trim():
                self._trim(event)
            case Retired():
                self._count_lost(event)
                self._trim(event)
            case Assigned():
                self.assignments.apply(event, number=number, at_ms=at_ms)
                self.history.add_assignment(event, number=number, at_ms=at_ms)
            case LockGranted():
                self.history.add_transition(self.locks.grant(event, number=number, at_ms=at_ms))
            case LockReleased():
                line = self.locks.release(event, number=number, at_ms=at_ms)
                if line is not None:
                    self.history.add_transition(line)
            case LockExpired():
                line = self.locks.expire(event, number=number, at_ms=at_ms)
                if line is not None:
                    self.history.add_transition(line)
            case ReadInOrder():
                self._note_order(event.group)
            case SentBack():
                self._send_back(event)
            case Resent():
                self.failures.resend(event)
            case TimerDone() | ClockJumped():
                self.timers.apply(event)
            case HalfStored() | HalfChecked() | HalfEnded() | GivenUpSent():
                self.transactions.apply(event, at_ms=at_ms)
            case Sequenced():
                self.repeats.apply(event, at_ms=at_ms)
            case QueueSuspended():
                self.operators.suspend(event, at_ms=at_ms)
            case HeadPassed():
                self._pass_head(event)
                self.operators.head_passed(event, at_ms=at_ms)
            case OffsetReset():
                progress = self.of(event.group, event.topic, event.queue, start=event.queue_offset)
                self._drop_leases(progress)
                progress.jump(event.queue_offset)
                self._moved(progress)
                self.failures.committed(event.group, event.topic, event.queue, event.queue_offset)
                self.operators.reset(event, at_ms=at_ms)
            case LiteExpired():
                self._expire_lite(event)
            case LiteForgotten():
                self.floors.pop((event.topic, 0), None)
                self.gone_lites.pop(event.topic, None)

    def of(self, group: str, topic: str, queue: int, *, start: int) -> QueueProgress:
        """Return a group's progress in a queue, begun at `start` when it has none."""
        progress = self.progress.get((group, topic, queue))
        if progress is not None:
            return progress
        progress = self.peek(group, topic, queue, start=start)
        self.progress[group, topic, queue] = progress
        self._of_places.setdefault((topic, queue), {})[group] = progress
        if not is_lite(topic):
            self.read_topics[group, topic] = None
        elif self.lite_listener is not None:
            self.lite_listener.begun(progress)
        return progress

    def peek(self, group: str, topic: str, queue: int, *, start: int) -> QueueProgress:
        """Return the progress `of` would, without keeping it: looking changes nothing."""
        progress = self.progress.get((group, topic, queue))
        if progress is None:
            start = max(start, self.floors.get((topic, queue), 0))
            progress = QueueProgress(group, topic, queue, start=start)
        return progress

    def _moved(self, progress: QueueProgress) -> None:
        if self.lite_listener is not None and is_lite(progress.topic):
            self.lite_listener.moved(progress)

    def _deliver(self, event: Deliver, number: int, at_ms: int) -> None:
        offsets = offsets_of(event.runs)
        start = int(offsets[0]) if len(offsets) else event.cursor_after
        progress = self.of(event.group, event.topic, event.queue, start=start)
        history: tuple[Attempt, ...] = ()
        if event.source == FRESH:
            progress.advance(event.cursor_after, offsets)
        elif (source := self.leases.get(event.source)) is not None:
            history = source.past()
            self.leases.take(source, offsets)
        self.leases.add(
            LeaseEntry(
                lease=number,
                epoch=event.epoch,
                progress=progress,
                offsets=offsets,
                attempt=event.attempt,
                due_ms=self._due_ms(event.until_ms, at_ms),
                until_wall_ms=event.until_ms,
                is_out=True,
                failures_before=event.failures_before,
                client_id=event.client_id,
                history=history,
            )
        )
        self._moved(progress)

    def _move(self, event: Return | Extend | PutOff, number: int, at_ms: int) -> None:
        """Give messages of a lease to a new one, with another deadline and the same attempt.

        What is put off is on its attempt again when it is handed out next.
        """
        entry = self.leases.get(event.lease)
        if entry is None:
            return
        offsets = offsets_of(event.runs)
        self.leases.take(entry, offsets)
        is_out = isinstance(event, Extend)
        until_ms = event.until_ms if isinstance(event, Extend) else event.visible_ms
        history = entry.history
        if isinstance(event, Return):
            history = entry.given_back(at_ms, event.reason)
        self.leases.add(
            LeaseEntry(
                lease=number,
                epoch=event.epoch if isinstance(event, Extend) else 0,
                progress=entry.progress,
                offsets=offsets,
                attempt=entry.attempt - isinstance(event, PutOff),
                due_ms=self._due_ms(until_ms, at_ms),
                until_wall_ms=until_ms,
                is_out=is_out,
                failures_before=entry.failures_before,
                client_id=entry.client_id,
                history=history,
            )
        )
        self._moved(entry.progress)

    def _send_back(self, event: SentBack) -> None:
        """Take messages from the group, wherever it has them."""
        offsets = offsets_of(event.runs)
        progress = self.progress.get((event.group, event.topic, event.queue))
        floor = 0
        if progress is not None:
            for entry in map(self.leases.get, list(progress.leases)):
                if entry is not None and len(taken := np.intersect1d(entry.offsets, offsets)):
                    self.leases.take(entry, taken)
            progress.settle(offsets)
            self._moved(progress)
            floor = progress.floor
        self.failures.send_back(event, floor=floor)

    def _pass_head(self, event: HeadPassed) -> None:
        """Settle one message that nobody has settled; everything before it is done."""
        key = (event.group, event.topic, event.queue)
        offsets = np.array([event.queue_offset], dtype=np.int64)
        progress = self.of(*key, start=event.queue_offset)
        for entry in map(self.leases.get, list(progress.leases)):
            if entry is not None and event.queue_offset in entry.offsets:
                self.leases.take(entry, offsets)
        if event.queue_offset >= progress.cursor:
            progress.advance(event.queue_offset + 1, offsets[:0])
        else:
            progress.settle(offsets)
        self._moved(progress)
        self.failures.committed(*key, progress.floor)

    def _note_order(self, group: str) -> None:
        self.in_order[group] = None
        if len(self.in_order) > IN_ORDER_MAX:
            del self.in_order[next(iter(self.in_order))]

    def _due_ms(self, until_ms: int, at_ms: int) -> int:
        """Return a wall time of the past as a deadline on the monotonic clock.

        It is what is left by the wall clock, and never more than was given: the clock may jump.
        """
        left_ms = min(until_ms - at_ms, until_ms - self._clock.wall_ms())
        return self._clock.monotonic_ms() + max(0, left_ms)

    def _count_lost(self, event: Retired) -> None:
        for group, progress in self._of_places.get((event.topic, event.queue), {}).items():
            offsets = np.arange(progress.floor, event.min_offset)
            inside = progress.settled[: len(offsets)]
            is_lost = np.ones(len(offsets), dtype=bool)
            is_lost[: len(inside)] = ~inside
            copied = self.failures.sent_back(group, event.topic, event.queue)
            count = int(is_lost.sum() - np.isin(offsets[is_lost], copied).sum())
            if count:
                key = (group, event.topic, event.queue)
                self.lost[key] = self.lost.get(key, 0) + count

    def _trim(self, event: Trim | Retired) -> None:
        key = (event.topic, event.queue)
        self.floors[key] = floor = max(event.min_offset, self.floors.get(key, 0))
        for group, progress in self._of_places.get(key, {}).items():
            for entry in [self.leases.get(lease) for lease in list(progress.leases)]:
                if entry is not None:
                    self.leases.take(entry, entry.offsets[entry.offsets < floor])
            progress.raise_to(floor)
            self._moved(progress)
            self.failures.committed(group, *key, progress.floor)

    def _expire_lite(self, event: LiteExpired) -> None:
        """Forget where groups are in a lite topic: whoever reads it again begins at its end."""
        place = (event.topic, 0)
        self.floors[place] = event.min_offset
        self.gone_lites[event.topic] = event.log_offset
        for group, progress in self._of_places.pop(place, {}).items():
            self._drop_leases(progress)
            del self.progress[group, *place]
            if self.lite_listener is not None:
                self.lite_listener.ended(progress)
            self.failures.committed(group, *place, event.min_offset)
            self.lost.pop((group, *place), None)
            self.operators.forget((group, *place))

    def _drop_leases(self, progress: QueueProgress) -> None:
        for lease in list(progress.leases):
            entry = self.leases.get(lease)
            if entry is not None:
                self.leases.drop(entry)

    def dump(self) -> dict[str, object]:
        """Return everything as plain values, for the checkpoint."""
        return {
            "groups": [
                [p.group, p.topic, p.queue, p.floor, p.cursor, p.settled_runs.tolist()]
                for p in self.progress.values()
            ],
            "leases": [
                [
                    entry.lease,
                    entry.epoch,
                    *(entry.progress.group, entry.progress.topic, entry.progress.queue),
                    entry.attempt,
                    entry.until_wall_ms,
                    entry.is_out,
                    runs_of(entry.offsets).tolist(),
                    entry.failures_before,
                    entry.client_id,
                    [[a.number, a.at_ms, a.reason, a.client_id] for a in entry.history],
                ]
                for entry in self.leases
            ],
            "floors": [[topic, queue, floor] for (topic, queue), floor in self.floors.items()],
            "lost": [[*key, count] for key, count in self.lost.items()],
            "locks": self.locks.dump(),
            "assignments": self.assignments.dump(),
            "history": self.history.dump(),
            "failures": self.failures.dump(),
            "timers": self.timers.dump(),
            "transactions": self.transactions.dump(),
            "repeats": self.repeats.dump(),
            "operators": self.operators.dump(),
            "in_order": list(self.in_order),
            "gone_lites": list(self.gone_lites.items()),
        }

    def load(
        self, content: Mapping[str, Any], read: Callable[[int], tuple[Assigned, int] | None]
    ) -> None:
        """Take up what `dump` gave; one made before there were locks and assignments has none.

        `read` returns the assignment with a journal number, and its wall time. Raises KeyError,
        TypeError, ValueError or StoreDamaged for anything else.
        """
        self._load_messages(content["groups"], content["leases"], content["floors"])
        self.lost = {
            (str(group), str(topic), _int(queue)): _int(count)
            for group, topic, queue, count in content.get("lost", ())
        }
        self.locks.load(content.get("locks", ()))
        self.assignments.load(content.get("assignments", ()))
        if "history" in content:
            self.history.load(content["history"], read)
        if "failures" in content:
            self.failures.load(content["failures"])
            self.timers.load(content["timers"])
            self.transactions.load(content["transactions"])
        if "repeats" in content:
            self.repeats.load(content["repeats"])
        if "operators" in content:
            self.operators.load(content["operators"])
        self.gone_lites = {
            str(topic): _int(offset) for topic, offset in content.get("gone_lites", ())
        }
        for group in content.get("in_order", ()):
            self._note_order(str(group))

    def _load_messages(
        self,
        groups: Iterable[list[object]],
        leases: Iterable[list[object]],
        floors: Iterable[list[object]],
    ) -> None:
        self.floors = {(str(topic), _int(queue)): _int(floor) for topic, queue, floor in floors}
        for group, topic, queue, floor, cursor, settled in groups:
            progress = self.of(str(group), str(topic), _int(queue), start=_int(floor))
            done = offsets_of(np.array(settled, dtype=np.int64).reshape(-1, 2))
            passed = np.arange(_int(floor), _int(cursor))
            progress.advance(_int(cursor), passed[~np.isin(passed, done)])
        now_ms = self._clock.wall_ms()
        for lease, epoch, group, topic, queue, attempt, until_ms, is_out, runs, *past in leases:
            # A checkpoint made before there were retries says no more.
            failures_before, client_id, history = past or (0, "", ())
            until_ms = min(_int(until_ms), now_ms + INVISIBLE_MS_MAX)
            self.leases.add(
                LeaseEntry(
                    lease=_int(lease),
                    epoch=_int(epoch),
                    progress=self.of(str(group), str(topic), _int(queue), start=0),
                    offsets=offsets_of(np.array(runs, dtype=np.int64).reshape(-1, 2)),
                    attempt=_int(attempt),
                    due_ms=self._due_ms(until_ms, now_ms),
                    until_wall_ms=until_ms,
                    is_out=bool(is_out),
                    failures_before=_int(failures_before),
                    client_id=str(client_id),
                    history=_attempts(history),
                )
            )


def _attempts(rows: Any) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(
            number=_int(number), at_ms=_int(at_ms), reason=str(reason), client_id=str(client_id)
        )
        for number, at_ms, reason, client_id in rows
    )


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value
