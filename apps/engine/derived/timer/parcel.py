"""A parcel: delayed messages of one queue in the body of one record. Knows its bytes only.

docs/FORMAT.md has the table. The messages lie in it as they will in their queue.
"""

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import starts_of
from apps.engine.codec.layout import RECORD_HEADER_BYTES, TIMER_TOPIC
from apps.engine.codec.record import encode_record
from apps.engine.derived.timer.rows import FROM_LOG, PARCEL_MESSAGES_MAX, ROW, Rows
from apps.engine.errors import StoreDamaged

_MAGIC = b"MQTP"
_VERSION = 1
# Magic, version, epoch, queue, count, length of the topic.
_HEAD = struct.Struct(">4sHIiIH")
_TOPIC_BYTES_MAX = 255
# Due time, tag hash and size of each message.
_COLUMN_BYTES = 8 + 8 + 4
_TOPIC = TIMER_TOPIC.encode()

# So much from the start of a record holds everything but the columns and messages.
FRONT_BYTES = RECORD_HEADER_BYTES + _HEAD.size + _TOPIC_BYTES_MAX

assert _HEAD.size == 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ParcelHead:
    """What a parcel says before its messages. `columns_start` is a byte of the record."""

    topic: str
    queue: int
    epoch: int
    count: int
    columns_start: int

    @property
    def columns_bytes(self) -> int:
        """Return how long the columns are."""
        return self.count * _COLUMN_BYTES


def encode_parcel(
    *,
    topic: str,
    queue: int,
    epoch: int,
    due_ms: NDArray[np.int64],
    tag_hashes: NDArray[np.int64],
    sizes: NDArray[np.int32],
    payload: bytes | bytearray,
    born_time_ms: int,
) -> bytes:
    """Return the record of a parcel. The columns are of one length, up to 65,536 messages."""
    name = topic.encode()
    assert 0 < len(sizes) <= PARCEL_MESSAGES_MAX
    assert len(sizes) == len(due_ms) == len(tag_hashes)
    body = b"".join(
        (
            _HEAD.pack(_MAGIC, _VERSION, epoch, queue, len(sizes), len(name)),
            name,
            due_ms.astype(">i8").tobytes(),
            tag_hashes.astype(">i8").tobytes(),
            sizes.astype(">i4").tobytes(),
            payload,
        )
    )
    return encode_record(topic=_TOPIC, queue=0, body=body, born_time_ms=born_time_ms)


def decode_head(front: memoryview) -> ParcelHead:
    """Return the head of a parcel from the first bytes of its record. Raises StoreDamaged."""
    try:
        magic, version, epoch, queue, count, name_bytes = _HEAD.unpack_from(
            front, RECORD_HEADER_BYTES
        )
        name_start = RECORD_HEADER_BYTES + _HEAD.size
        topic = bytes(front[name_start : name_start + name_bytes]).decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise StoreDamaged("a record of delayed messages cannot be read") from error
    if magic != _MAGIC or version != _VERSION or not 0 < count <= PARCEL_MESSAGES_MAX:
        raise StoreDamaged("a record of delayed messages is none")
    return ParcelHead(
        topic=topic,
        queue=queue,
        epoch=epoch,
        count=count,
        columns_start=name_start + name_bytes,
    )


def rows_of(
    head: ParcelHead, columns: bytes | memoryview, *, number: int, log_offset: int, place: int
) -> Rows:
    """Return a row for each message of a parcel whose record lies at `log_offset`.

    `columns` are the bytes of due times, tag hashes and sizes; `number` is the parcel's.
    """
    count = head.count
    sizes = np.frombuffer(columns, dtype=">i4", count=count, offset=16 * count).astype(np.int32)
    rows = np.zeros(count, dtype=ROW)
    rows["due_ms"] = np.frombuffer(columns, dtype=">i8", count=count)
    rows["at_ms"] = rows["due_ms"]
    rows["number"] = number * PARCEL_MESSAGES_MAX + np.arange(count)
    rows["position"] = log_offset + head.columns_start + head.columns_bytes + starts_of(sizes)
    rows["tag_hash"] = np.frombuffer(columns, dtype=">i8", count=count, offset=8 * count)
    rows["size_bytes"] = sizes
    rows["place"] = place
    rows["source"] = FROM_LOG
    return rows
