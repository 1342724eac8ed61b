"""Binary batches and answers: MQB1, MQA1, MQP1, MQR1. Knows bytes only (FORMAT.md section 7)."""

import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from mqclient.errors import ProtocolViolation
from mqclient.values import BatchReceipt, PullStatus
from mqclient.wire.checksums import crc32
from mqclient.wire.records import Lease, Message, unpack_records

MEDIA_TYPE = "application/vnd.mqweb.records"

_BATCH = struct.Struct(">4sIII")
_BATCH_OF_ONE = struct.Struct(">4sIIIi")
_APPENDED = struct.Struct(">4sIqq")
_PULLED = struct.Struct(">4sIqqq")
_RECEIVED = struct.Struct(">4sII")
_TEXT = struct.Struct(">H")
_LEASE = struct.Struct(">IIq")
_BLOCKED = struct.Struct(">I")
_SIZE = struct.Struct(">i")
_STATUSES = tuple(PullStatus)

assert _BATCH.size == 16
assert _APPENDED.size == 24
assert _PULLED.size == 32
assert array("i").itemsize == 4
assert [str(status) for status in _STATUSES] == [
    "FOUND", "NO_NEW_MSG", "NO_MATCHED_MSG", "OFFSET_ILLEGAL",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """The answer to a pull; `next_offset` is where to read on, whatever the status.

    `unreadable` counts the messages up to there that were damaged on the broker's disk.
    """

    status: PullStatus
    messages: list[Message]
    next_offset: int
    min_offset: int
    max_offset: int
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """The answer to a receive: messages, and (topic, queue) held back by an ordered delivery."""

    messages: list[Message]
    blocked: tuple[tuple[str, int], ...]


def pack_batch(records: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return a batch as two buffers, head with sizes and payload, so that no byte is copied."""
    if len(records) == 1:
        # What most single sends are: the general way would cost them twice as much.
        payload = records[0]
        size_bytes = len(payload)
        checksum = crc32(payload, crc32(_SIZE.pack(size_bytes)))
        return _BATCH_OF_ONE.pack(b"MQB1", 1, size_bytes, checksum, size_bytes), payload
    sizes = array("i", map(len, records))
    if sys.byteorder == "little":
        sizes.byteswap()
    packed_sizes = sizes.tobytes()
    payload = b"".join(records)
    checksum = crc32(payload, crc32(packed_sizes))
    return _BATCH.pack(b"MQB1", len(records), len(payload), checksum) + packed_sizes, payload


class _Reader:
    """Reads an answer from front to back; raises ProtocolViolation where it is too short."""

    __slots__ = ("answer", "position")

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.position = 0

    def fields(self, layout: struct.Struct) -> tuple[int, ...]:
        end = self._end(layout.size)
        values = layout.unpack_from(self.answer, self.position)
        self.position = end
        return values

    def headed(self, layout: struct.Struct, magic: bytes) -> tuple[int, ...]:
        if not self.answer.startswith(magic, self.position):
            raise ProtocolViolation(f"{magic!r} is missing at byte {self.position}")
        return self.fields(layout)[1:]

    def text(self) -> str:
        (length,) = self.fields(_TEXT)
        end = self._end(length)
        encoded = self.answer[self.position : end]
        self.position = end
        return encoded.decode("utf-8", "replace")

    def batch(self, lease: Lease | None = None) -> list[Message]:
        count, payload_bytes, checksum = self.headed(_BATCH, b"MQB1")
        sizes_end = self._end(4 * count)
        end = self._end(4 * count + payload_bytes)
        sizes = array("i", self.answer[self.position : sizes_end])
        if sys.byteorder == "little":
            sizes.byteswap()
        if sum(sizes) != payload_bytes:
            raise ProtocolViolation("the sizes of a batch do not add up to its payload")
        if crc32(memoryview(self.answer)[self.position : end]) != checksum:
            raise ProtocolViolation("a batch does not have its checksum")
        self.position = end
        return unpack_records(self.answer, sizes_end, sizes, lease)

    def finish(self) -> None:
        if self.position != len(self.answer):
            raise ProtocolViolation(f"{len(self.answer) - self.position} bytes too many")

    def _end(self, length: int) -> int:
        end = self.position + length
        if end > len(self.answer):
            raise ProtocolViolation(f"{end - len(self.answer)} bytes are missing")
        return end


def unpack_appended(answer: bytes) -> BatchReceipt:
    """Read the answer to a binary send; raise ProtocolViolation when it is none."""
    if len(answer) != _APPENDED.size or not answer.startswith(b"MQA1"):
        raise ProtocolViolation(f"{answer[:40]!r} is no answer to a send")
    _, count, queue_offset, store_time_ms = _APPENDED.unpack(answer)
    return BatchReceipt(
        count=count,
        queue_offset=None if queue_offset < 0 else queue_offset,
        store_time_ms=store_time_ms,
    )


def unpack_pulled(answer: bytes) -> Pulled:
    """Read the answer to a pull; raise ProtocolViolation or CorruptMessage."""
    reader = _Reader(answer)
    status, next_offset, min_offset, max_offset = reader.headed(_PULLED, b"MQP1")
    status, unreadable = status & 0xFF, status >> 8
    if status >= len(_STATUSES):
        raise ProtocolViolation(f"{status} is no pull status")
    messages = reader.batch()
    reader.finish()
    return Pulled(
        status=_STATUSES[status],
        messages=messages,
        next_offset=next_offset,
        min_offset=min_offset,
        max_offset=max_offset,
        unreadable=unreadable,
    )


def unpack_received(answer: bytes) -> Received:
    """Read the answer to a receive; raise ProtocolViolation or CorruptMessage."""
    reader = _Reader(answer)
    lease_count, blocked_count = reader.headed(_RECEIVED, b"MQR1")
    messages: list[Message] = []
    for _ in range(lease_count):
        token = reader.text()
        reader.text()
        _queue, attempt, invisible_until_ms = reader.fields(_LEASE)
        lease = Lease(token, attempt, invisible_until_ms)
        batch = reader.batch(lease)
        lease.queue_offsets = [message.queue_offset for message in batch]
        messages += batch
    blocked = tuple((reader.text(), reader.fields(_BLOCKED)[0]) for _ in range(blocked_count))
    reader.finish()
    return Received(messages=messages, blocked=blocked)
