"""What happened to a group: its messages, its assignment, its locks, as records of the log.

Knows the bytes of docs/FORMAT.md 5; not what the events do. Every change of consumer state is one
of these values, appended before it is applied; a restart applies the same values again and arrives
at the same state.
"""

import struct
from dataclasses import dataclass, replace

from apps.engine.broker.careevents import CARE_EVENTS, CareEvent
from apps.engine.broker.eventbytes import (
    I64,
    U8,
    U32,
    Reader,
    Runs,
    offsets_of,
    runs_bytes,
    runs_of,
    text_bytes,
)
from apps.engine.errors import StoreDamaged
from apps.engine.grouptypes import LockChange

__all__ = [
    "FRESH", "Assigned", "Commit", "Deliver", "Event", "Extend", "LockGranted", "LockReleased",
    "Renew", "Return", "Runs", "Settle", "Trim", "decode_event", "encode_event", "offsets_of",
    "runs_of",
]  # fmt: skip

# The source of messages that were never handed out before.
FRESH = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deliver:
    """Messages handed out. `source` is the lease they come from, -1 for the first time.

    `epoch` is the store's at that moment: a power cut may take the record back, and its number
    then goes to another one, but never with the same epoch. `failures_before` is how often each
    had failed before it came to this queue.
    """

    group: str
    topic: str
    queue: int
    cursor_after: int
    source: int = FRESH
    attempt: int
    epoch: int
    until_ms: int
    runs: Runs
    failures_before: int = 0
    client_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settle:
    """Messages done for good."""

    lease: int
    runs: Runs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Return:
    """Messages given back, visible from `visible_ms` on."""

    lease: int
    visible_ms: int
    runs: Runs
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extend:
    """Messages kept for longer, under a new lease."""

    lease: int
    epoch: int
    until_ms: int
    runs: Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """What is left of a lease is kept until another time, and its handles stay good."""

    lease: int
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Everything of a queue below `queue_offset` is done; everything from there on is not."""

    group: str
    topic: str
    queue: int
    queue_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """A queue begins at `min_offset` from here on."""

    topic: str
    queue: int
    min_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The queues of a group are shared out anew. `content` is a JSON text: who got what."""

    group: str
    generation: int
    reason: str
    strategy: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockGranted:
    """A queue's lock is `owner`'s from here on, whoever had it. `epoch` is its fence."""

    group: str
    topic: str
    queue: int
    owner: str
    epoch: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockReleased:
    """The lock that was granted with `epoch` is nobody's. `change` is RELEASED or FORCED."""

    group: str
    topic: str
    queue: int
    epoch: int
    change: LockChange = LockChange.RELEASED
    reason: str = ""


Event = (
    Deliver
    | Settle
    | Return
    | Extend
    | Renew
    | Commit
    | Trim
    | Assigned
    | LockGranted
    | LockReleased
    | CareEvent
)

# How a lock was given up, by the number that is written for it.
_RELEASES = (LockChange.RELEASED, LockChange.FORCED)


def _place(event: Commit | LockGranted | LockReleased) -> bytes:
    return text_bytes(event.group) + text_bytes(event.topic) + U32.pack(event.queue)


def encode_event(event: Event) -> bytes:
    """Return the body of the event's record."""
    match event:
        case Deliver():
            to_whom = b""
            if event.failures_before or event.client_id:
                to_whom = U32.pack(event.failures_before) + text_bytes(event.client_id)
            return b"".join(
                (
                    b"\x12" if to_whom else b"\x01",
                    text_bytes(event.group),
                    text_bytes(event.topic),
                    struct.pack(">IqqIIq", event.queue, event.cursor_after, event.source,
                                event.attempt, event.epoch, event.until_ms),
                    runs_bytes(event.runs),
                    to_whom,
                )
            )  # fmt: skip
        case Settle():
            return b"\x02" + I64.pack(event.lease) + runs_bytes(event.runs)
        case Return():
            head = struct.pack(">Bqq", 3, event.lease, event.visible_ms)
            return head + runs_bytes(event.runs) + text_bytes(event.reason)
        case Extend():
            head = struct.pack(">BqIq", 4, event.lease, event.epoch, event.until_ms)
            return head + runs_bytes(event.runs)
        case Renew():
            return struct.pack(">Bqq", 26, event.lease, event.until_ms)
        case Commit():
            return b"\x05" + _place(event) + I64.pack(event.queue_offset)
        case Trim():
            return (
                b"\x06"
                + text_bytes(event.topic)
                + struct.pack(">Iq", event.queue, event.min_offset)
            )
        case Assigned():
            head = text_bytes(event.group) + I64.pack(event.generation)
            why = text_bytes(event.reason) + text_bytes(event.strategy)
            return b"\x07" + head + why + text_bytes(event.content, U32)
        case LockGranted():
            holder = text_bytes(event.owner) + I64.pack(event.epoch)
            return b"\x08" + _place(event) + holder + text_bytes(event.reason)
        case LockReleased():
            what = struct.pack(">qB", event.epoch, _RELEASES.index(event.change))
            return b"\x09" + _place(event) + what + text_bytes(event.reason)
        case _:
            return bytes((event.KIND,)) + event.body()


def decode_event(data: bytes) -> Event:
    """Return the event of a record's body; raise StoreDamaged for anything else."""
    try:
        reader = Reader(data[1:])
        event = _decode(reader, data[0])
        if reader.at != len(reader.data):
            raise ValueError("bytes are left over")
        return event
    except (struct.error, IndexError, KeyError, ValueError) as error:
        raise StoreDamaged("a consumer state record cannot be read") from error


def _delivered(read: Reader) -> Deliver:
    return Deliver(
        group=read.text(),
        topic=read.text(),
        queue=read.number(U32),
        cursor_after=read.number(I64),
        source=read.number(I64),
        attempt=read.number(U32),
        epoch=read.number(U32),
        until_ms=read.number(I64),
        runs=read.runs(),
    )


def _decode(read: Reader, kind: int) -> Event:
    match kind:
        case 1:
            return _delivered(read)
        case 18:
            event = replace(
                _delivered(read), failures_before=read.number(U32), client_id=read.text()
            )
            if not event.failures_before and not event.client_id:
                raise ValueError("this is written as kind 1")
            return event
        case 2:
            return Settle(lease=read.number(I64), runs=read.runs())
        case 3:
            return Return(
                lease=read.number(I64),
                visible_ms=read.number(I64),
                runs=read.runs(),
                reason=read.text(),
            )
        case 4:
            return Extend(
                lease=read.number(I64),
                epoch=read.number(U32),
                until_ms=read.number(I64),
                runs=read.runs(),
            )
        case 5:
            return Commit(
                group=read.text(),
                topic=read.text(),
                queue=read.number(U32),
                queue_offset=read.number(I64),
            )
        case 6:
            return Trim(topic=read.text(), queue=read.number(U32), min_offset=read.number(I64))
        case 7:
            return Assigned(
                group=read.text(),
                generation=read.number(I64),
                reason=read.text(),
                strategy=read.text(),
                content=read.text(U32),
            )
        case 8:
            return LockGranted(
                group=read.text(),
                topic=read.text(),
                queue=read.number(U32),
                owner=read.text(),
                epoch=read.number(I64),
                reason=read.text(),
            )
        case 9:
            return LockReleased(
                group=read.text(),
                topic=read.text(),
                queue=read.number(U32),
                epoch=read.number(I64),
                change=_RELEASES[read.number(U8)],
                reason=read.text(),
            )
        case 26:
            return Renew(lease=read.number(I64), until_ms=read.number(I64))
    return CARE_EVENTS[kind].read(read)
