"""What happened to a group: its messages, its assignment, its locks, as records of the log.

Knows the bytes of docs/FORMAT.md 5; not what the events do. Every change of consumer state is one
of these values, appended before it is applied; a restart applies the same values again and arrives
at the same state.
"""

import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apps.engine.errors import StoreDamaged
from apps.engine.grouptypes import LockChange

# Ascending, disjoint runs of queue offsets, ends included: int64[n, 2].
Runs = NDArray[np.int64]

# The source of messages that were never handed out before.
FRESH = -1
_U8 = struct.Struct(">B")
_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_I64 = struct.Struct(">q")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deliver:
    """Messages handed out. `source` is the lease they come from, -1 for the first time.

    `epoch` is the store's at that moment: a power cut may take the record back, and its number
    then goes to another one, but never with the same epoch.
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


Event = Deliver | Settle | Return | Extend | Commit | Trim | Assigned | LockGranted | LockReleased

# How a lock was given up, by the number that is written for it.
_RELEASES = (LockChange.RELEASED, LockChange.FORCED)


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int = field(default=0)

    def number(self, form: struct.Struct) -> int:
        (value,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return int(value)

    def text(self, length_form: struct.Struct = _U16) -> str:
        length = self.number(length_form)
        self.at += length
        if self.at > len(self.data):
            raise ValueError("the text is cut off")
        return self.data[self.at - length : self.at].decode()

    def runs(self) -> Runs:
        count = self.number(_U32)
        found = np.frombuffer(self.data, dtype=">i8", count=2 * count, offset=self.at)
        self.at += found.nbytes
        return found.astype(np.int64).reshape(count, 2)


def _text(value: str, length_form: struct.Struct = _U16) -> bytes:
    data = value.encode()
    return length_form.pack(len(data)) + data


def _place(event: Commit | LockGranted | LockReleased) -> bytes:
    return _text(event.group) + _text(event.topic) + _U32.pack(event.queue)


def _runs(runs: Runs) -> bytes:
    return _U32.pack(len(runs)) + runs.astype(">i8").tobytes()


def encode_event(event: Event) -> bytes:
    """Return the body of the event's record."""
    match event:
        case Deliver():
            return b"".join(
                (
                    b"\x01",
                    _text(event.group),
                    _text(event.topic),
                    struct.pack(">IqqIIq", event.queue, event.cursor_after, event.source,
                                event.attempt, event.epoch, event.until_ms),
                    _runs(event.runs),
                )
            )  # fmt: skip
        case Settle():
            return b"\x02" + _I64.pack(event.lease) + _runs(event.runs)
        case Return():
            head = struct.pack(">Bqq", 3, event.lease, event.visible_ms)
            return head + _runs(event.runs) + _text(event.reason)
        case Extend():
            head = struct.pack(">BqIq", 4, event.lease, event.epoch, event.until_ms)
            return head + _runs(event.runs)
        case Commit():
            return b"\x05" + _place(event) + _I64.pack(event.queue_offset)
        case Trim():
            return b"\x06" + _text(event.topic) + struct.pack(">Iq", event.queue, event.min_offset)
        case Assigned():
            head = _text(event.group) + _I64.pack(event.generation)
            why = _text(event.reason) + _text(event.strategy)
            return b"\x07" + head + why + _text(event.content, _U32)
        case LockGranted():
            holder = _text(event.owner) + _I64.pack(event.epoch)
            return b"\x08" + _place(event) + holder + _text(event.reason)
        case LockReleased():
            what = struct.pack(">qB", event.epoch, _RELEASES.index(event.change))
            return b"\x09" + _place(event) + what + _text(event.reason)


def decode_event(data: bytes) -> Event:
    """Return the event of a record's body; raise StoreDamaged for anything else."""
    try:
        reader = _Reader(data[1:])
        event = _decode(reader, data[0])
        if reader.at != len(reader.data):
            raise ValueError("bytes are left over")
        return event
    except (struct.error, IndexError, ValueError) as error:
        raise StoreDamaged("a consumer state record cannot be read") from error


def _decode(read: _Reader, kind: int) -> Event:
    match kind:
        case 1:
            return Deliver(
                group=read.text(),
                topic=read.text(),
                queue=read.number(_U32),
                cursor_after=read.number(_I64),
                source=read.number(_I64),
                attempt=read.number(_U32),
                epoch=read.number(_U32),
                until_ms=read.number(_I64),
                runs=read.runs(),
            )
        case 2:
            return Settle(lease=read.number(_I64), runs=read.runs())
        case 3:
            return Return(
                lease=read.number(_I64),
                visible_ms=read.number(_I64),
                runs=read.runs(),
                reason=read.text(),
            )
        case 4:
            return Extend(
                lease=read.number(_I64),
                epoch=read.number(_U32),
                until_ms=read.number(_I64),
                runs=read.runs(),
            )
        case 5:
            return Commit(
                group=read.text(),
                topic=read.text(),
                queue=read.number(_U32),
                queue_offset=read.number(_I64),
            )
        case 6:
            return Trim(topic=read.text(), queue=read.number(_U32), min_offset=read.number(_I64))
        case 7:
            return Assigned(
                group=read.text(),
                generation=read.number(_I64),
                reason=read.text(),
                strategy=read.text(),
                content=read.text(_U32),
            )
        case 8:
            return LockGranted(
                group=read.text(),
                topic=read.text(),
                queue=read.number(_U32),
                owner=read.text(),
                epoch=read.number(_I64),
                reason=read.text(),
            )
        case 9:
            return LockReleased(
                group=read.text(),
                topic=read.text(),
                queue=read.number(_U32),
                epoch=read.number(_I64),
                change=_RELEASES[read.number(_U8)],
                reason=read.text(),
            )
    raise ValueError(f"kind {kind}")


def runs_of(offsets: NDArray[np.int64]) -> Runs:
    """Return ascending offsets as runs."""
    if len(offsets) == 0:
        return np.empty((0, 2), dtype=np.int64)
    breaks = np.flatnonzero(np.diff(offsets) != 1)
    first = offsets[np.concatenate(([0], breaks + 1))]
    last = offsets[np.concatenate((breaks, [len(offsets) - 1]))]
    return np.stack([first, last], axis=1)


def offsets_of(runs: Runs) -> NDArray[np.int64]:
    """Return runs as ascending offsets."""
    if len(runs) == 1:
        return np.arange(runs[0, 0], runs[0, 1] + 1)
    lengths = runs[:, 1] - runs[:, 0] + 1
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(runs[:, 0] - (ends - lengths), lengths) + np.arange(total)
