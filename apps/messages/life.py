"""What became of one message, as a list of events. Pure: sources in, events and gaps out.

Each event says where it is known from. What nobody told is no event: it is named as unknown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from apps.messages.seen import Failure, Role, Seen
from apps.messages.telling import Told

# RocketMQ's system flag of a message whose transaction was committed.
_COMMITTED = 0b1000
_TRANSACTION = 0b1100


class Kind(StrEnum):
    """What happened."""

    MADE = "made"
    HALF = "half"
    STORED = "stored"
    DECIDED = "decided"
    COMMITTED = "committed"
    UNDECIDED = "undecided"
    GIVEN_UP = "given_up"
    WAITING = "waiting"
    RECALLED = "recalled"
    LOCK_WAIT = "lock_wait"
    LOCK = "lock"
    WORKED = "worked"
    FAILED = "failed"
    RETRIED = "retried"
    DEAD = "dead"
    RESENT = "resent"
    DISCARDED = "discarded"
    SETTLED = "settled"
    IN_FLIGHT = "in_flight"
    NOT_YET = "not_yet"


class Source(StrEnum):
    """Where an event is known from."""

    LOG = "log"
    TRACES = "traces"
    LOCKS = "locks"
    DEAD_LETTERS = "dead_letters"
    DECISIONS = "decisions"
    BROKER = "broker"


class Gap(StrEnum):
    """What is not known of a message's life, and why."""

    NOT_FOUND = "not_found"
    NO_TRACES = "no_traces"
    TRACES_INCOMPLETE = "traces_incomplete"
    COPIES_INCOMPLETE = "copies_incomplete"
    SEVERAL = "several"
    NO_ID = "no_id"
    LOCKS_INCOMPLETE = "locks_incomplete"
    HALF_TIME = "half_time"
    WAITING_INCOMPLETE = "waiting_incomplete"
    NOT_SHOWN = "not_shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a message, or is so now. Times are wall ms, None where unknown.

    Times of `worked` are the consumer's clock, of `made` the producer's, all others the broker's.
    `ended_ms` is when it was over, where it took time. `result` is a word of the traces or of the
    locks, `detail` any text of a producer, a consumer or an operator.
    """

    kind: Kind
    source: Source
    at_ms: int | None = None
    ended_ms: int | None = None
    group: str = ""
    client_id: str = ""
    attempt: int | None = None
    topic: str = ""
    queue: int | None = None
    queue_offset: int | None = None
    result: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A change of the lock of the message's queue, for one group."""

    group: str
    at_ms: int
    change: str
    owner: str
    previous_owner: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A message and what became of it, the earliest event first, those without a time last."""

    message_id: str
    topic: str
    head: Seen | None
    events: tuple[Event, ...]
    gaps: frozenset[Gap]
    scan_incomplete: bool


def beginning(head: Seen) -> list[Event]:
    """Return how a message came to its place."""
    record = head.record
    is_committed = record.sys_flag & _TRANSACTION == _COMMITTED
    events = []
    if record.born_time_ms > 0:
        kind = Kind.HALF if is_committed else Kind.MADE
        events.append(Event(kind=kind, source=Source.LOG, at_ms=record.born_time_ms))
    due_ms = head.due_ms
    if due_ms is not None:
        waited_from = record.born_time_ms if 0 < record.born_time_ms <= due_ms else due_ms
        events.append(
            Event(kind=Kind.WAITING, source=Source.LOG, at_ms=waited_from, ended_ms=due_ms)
        )
    stored = Kind.COMMITTED if is_committed else Kind.STORED
    events.append(
        Event(
            kind=stored,
            source=Source.LOG,
            at_ms=record.store_time_ms,
            topic=head.topic,
            queue=record.queue,
            queue_offset=record.queue_offset,
        )
    )
    return events


def copied(copies: Iterable[Seen]) -> list[Event]:
    """Return what retries, dead letters and repeated sends tell; each failure once."""
    events: list[Event] = []
    failures: dict[tuple[str, int, int], Failure] = {}
    for one in copies:
        record = one.record
        group = one.group or ""
        kind = _KINDS[one.role]
        detail = one.properties.get("RESENT_BY", "") if one.role is Role.RESENT else ""
        events.append(
            Event(
                kind=kind,
                source=Source.LOG,
                at_ms=record.store_time_ms,
                group=group,
                attempt=record.reconsume_times if group else None,
                topic=one.topic,
                queue=record.queue,
                queue_offset=record.queue_offset,
                detail=detail,
            )
        )
        for failure in one.failures:
            failures.setdefault((group, failure.number, failure.at_ms), failure)
    events += [
        Event(
            kind=Kind.FAILED,
            source=Source.LOG,
            at_ms=failure.at_ms,
            group=group,
            client_id=failure.client_id,
            attempt=failure.number,
            detail=failure.reason,
        )
        for (group, _number, _at_ms), failure in failures.items()
    ]
    return events


def worked(told: Iterable[Told]) -> list[Event]:
    """Return what consumers told of their work, and the broker of a recall."""
    return [
        Event(
            kind=Kind.RECALLED if one.is_recall else Kind.WORKED,
            source=Source.TRACES,
            at_ms=one.started_ms,
            ended_ms=one.ended_ms,
            group=one.group,
            client_id=one.client_id,
            attempt=one.attempt or None,
            topic=one.topic,
            queue=one.queue if one.queue >= 0 else None,
            queue_offset=one.queue_offset if one.queue_offset >= 0 else None,
            result=one.result,
            detail=one.error,
        )
        for one in told
    ]


def locked(locks: Iterable[Lock], told: Sequence[Told], stored_ms: int) -> list[Event]:
    """Return the changes of the queue's lock, and how long the message waited for one.

    It waited where whoever worked on it first, in order, got the lock after it was stored.
    """
    lines = sorted(locks, key=lambda lock: lock.at_ms)
    events = [
        Event(
            kind=Kind.LOCK,
            source=Source.LOCKS,
            at_ms=lock.at_ms,
            group=lock.group,
            client_id=lock.owner or lock.previous_owner,
            result=lock.change,
            detail=lock.reason,
        )
        for lock in lines
    ]
    for group in sorted({one.group for one in told if one.mode == "ordered"}):
        first = min(
            (one for one in told if one.group == group and one.mode == "ordered"),
            key=lambda one: one.started_ms,
        )
        taken = [
            lock.at_ms
            for lock in lines
            if lock.group == group
            and lock.owner == first.client_id
            and stored_ms < lock.at_ms <= first.started_ms
        ]
        if taken:
            events.append(
                Event(
                    kind=Kind.LOCK_WAIT,
                    source=Source.LOCKS,
                    at_ms=stored_ms,
                    ended_ms=taken[-1],
                    group=group,
                    client_id=first.client_id,
                )
            )
    return events


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """Return events by their time, those without one last; of one time by what must come first."""
    order = {kind: number for number, kind in enumerate(Kind)}
    return tuple(
        sorted(
            events,
            key=lambda one: (one.at_ms is None, one.at_ms or 0, order[one.kind], one.group),
        )
    )


_KINDS = {
    Role.ORIGIN: Kind.STORED,
    Role.TRACE: Kind.STORED,
    Role.RETRY: Kind.RETRIED,
    Role.DEAD_LETTER: Kind.DEAD,
    Role.RESENT: Kind.RESENT,
}
