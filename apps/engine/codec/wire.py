"""The binary media type: batches in, answers out. Knows bytes and values; no door and no socket.

docs/FORMAT.md section 7 has the tables: MQB1 batch, MQA1 append, MQP1 pull, MQR1 receive answer.
Nothing here loops over messages; per-record checks of a batch are `check.check_batch`'s.
"""

import struct
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from apps.engine import limits
from apps.engine.codec.batch import size_bounds
from apps.engine.codec.checksum import crc32
from apps.engine.errors import BatchTooLarge, ChecksumMismatch, MalformedBatch
from apps.engine.types import Appended, PullResult, PullStatus, ReceiveResult

Buffer = bytes | bytearray | memoryview

MEDIA_TYPE = "application/vnd.mqweb.records"

_BATCH = struct.Struct(">4sIII")
_APPENDED = struct.Struct(">4sIqq")
_PULLED = struct.Struct(">4sIqqq")
_RECEIVED = struct.Struct(">4sII")
_LEASE = struct.Struct(">IIq")
_QUEUE = struct.Struct(">I")
_LENGTH = struct.Struct(">H")
# Naming a type costs more than converting a handful of numbers to it.
_SIZE_SENT = np.dtype(">i4")
_SIZE = np.dtype(np.int32)

BATCH_HEADER_BYTES = _BATCH.size
BATCH_TABLE_BYTES_MAX = BATCH_HEADER_BYTES + 4 * limits.BINARY_BATCH_RECORDS_MAX
"""What a batch may have before its payload."""

STATUS_CODES = {
    PullStatus.FOUND: 0,
    PullStatus.NO_NEW_MSG: 1,
    PullStatus.NO_MATCHED_MSG: 2,
    PullStatus.OFFSET_ILLEGAL: 3,
}

assert BATCH_HEADER_BYTES == 16
assert _APPENDED.size == 24
_UNREADABLE_MAX = 0xFFFFFF
assert _PULLED.size == 32
assert set(STATUS_CODES) == set(PullStatus)


def parse_batch(data: bytes | bytearray) -> tuple[bytearray, NDArray[np.int32]]:
    """Return the payload of an MQB1 batch and the size of each record: int32[n], n >= 0.

    A bytearray is taken over: its front is cut off and it becomes the payload, without a copy.
    Raises MalformedBatch when magic, lengths or sizes disagree, BatchTooLarge when there are more
    records than a batch may hold, ChecksumMismatch when the bytes are not the ones that were sent.
    """
    if len(data) < BATCH_HEADER_BYTES:
        raise MalformedBatch("shorter than a batch header")
    magic, count, payload_bytes, crc = _BATCH.unpack_from(data)
    if magic != b"MQB1":
        raise MalformedBatch("the batch does not start with MQB1")
    if count > limits.BINARY_BATCH_RECORDS_MAX:
        raise BatchTooLarge(
            f"{count} records, at most {limits.BINARY_BATCH_RECORDS_MAX} in a batch"
        )
    payload_start = BATCH_HEADER_BYTES + 4 * count
    if len(data) != payload_start + payload_bytes:
        raise MalformedBatch("the batch is not as long as its header says")
    if crc32(memoryview(data)[BATCH_HEADER_BYTES:]) != crc:
        raise ChecksumMismatch("the batch does not have the checksum it was sent with")
    sizes = np.frombuffer(data, _SIZE_SENT, count, BATCH_HEADER_BYTES).astype(_SIZE)
    smallest, sum_bytes = size_bounds(sizes)
    if count and smallest < 1:
        raise MalformedBatch("a record size is not positive")
    if sum_bytes != payload_bytes:
        raise MalformedBatch("record sizes do not add up to the payload")
    if isinstance(data, bytearray):
        # Cutting the front of a bytearray moves its start; nothing is copied.
        del data[:payload_start]
        return data, sizes
    return bytearray(memoryview(data)[payload_start:]), sizes


def build_batch(payload: bytes | bytearray, sizes: NDArray[np.int32]) -> bytes:
    """Return an MQB1 batch; 16 bytes without records."""
    return b"".join(_batch_parts(payload, sizes))


def build_appended(appended: Appended) -> bytes:
    """Return the MQA1 answer to a send."""
    return _APPENDED.pack(b"MQA1", appended.count, appended.queue_offset, appended.store_time_ms)


def build_pull(result: PullResult) -> list[Buffer]:
    """Return the MQP1 answer to a pull, in parts: status and offsets, then one batch.

    How many messages were unreadable shares a word with the status, above its lowest byte.
    """
    head = _PULLED.pack(
        b"MQP1",
        STATUS_CODES[result.status] | min(result.unreadable, _UNREADABLE_MAX) << 8,
        result.next_offset,
        result.min_offset,
        result.max_offset,
    )
    return [head, *_batch_parts(result.block.payload, result.block.sizes)]


def build_receive(result: ReceiveResult) -> list[Buffer]:
    """Return the MQR1 answer to a receive, in parts: leases with their batches, blocked queues."""
    parts: list[Buffer] = [_RECEIVED.pack(b"MQR1", len(result.leases), len(result.blocked))]
    for lease in result.leases:
        parts += _text(lease.token)
        parts += _text(lease.block.topic)
        parts.append(_LEASE.pack(lease.block.queue, lease.attempt, lease.invisible_until_ms))
        parts += _batch_parts(lease.block.payload, lease.block.sizes)
    for topic, queue in result.blocked:
        parts += _text(topic)
        parts.append(_QUEUE.pack(queue))
    return parts


def _batch_parts(payload: Buffer, sizes: NDArray[np.int32]) -> tuple[bytes, bytes, Buffer]:
    table = sizes.astype(_SIZE_SENT).tobytes()
    head = _BATCH.pack(b"MQB1", len(sizes), len(payload), crc32(payload, crc32(table)))
    return head, table, payload


def _text(text: str) -> Iterable[bytes]:
    data = text.encode()
    return _LENGTH.pack(len(data)), data
