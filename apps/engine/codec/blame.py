"""Find out which records of a damaged stretch are bad, and which messages it held. Bytes only.

A frame has one checksum over all its records, and each body has its own. What the frame's checksum
is off by follows from what the bodies are off by and from where they lie, since CRC-32 is linear:
where the two agree, everything but those bodies is proven to be what was written.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from apps.engine.codec import layout
from apps.engine.codec.batch import starts_of
from apps.engine.codec.checksum import Buffer, crc32
from apps.engine.codec.frame import FrameHeader, frame_header_bytes
from apps.engine.types import LostMessages

_MAGIC = struct.pack(">i", layout.RECORD_MAGIC)
_MAGIC_AT = 4
# Total size, magic, body checksum, queue, queue offset, log offset, body length.
_FIELDS = struct.Struct(">iiii4xqq48xi")
# A record keeps 31 bits of its body's checksum, so each bad one doubles what must be tried.
_BAD_BODIES_MAX = 8
assert _FIELDS.size == layout.RECORD_HEADER_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecord:
    """A record that says itself that it lies here. `start` counts from where the search began."""

    start: int
    size_bytes: int
    topic: str
    queue: int
    queue_offset: int


def bad_bodies(header: FrameHeader, payload: Buffer) -> tuple[int, ...] | None:
    """Return the numbers of the records whose bodies are all that is wrong with a payload.

    Without any where nothing is wrong; None where that does not explain the frame's checksum, so
    that no record of it can be trusted. `payload` has the length the header says.
    """
    off_by = crc32(payload) ^ header.payload_crc
    if not off_by:
        return ()
    rows: list[int] = []
    parts: list[tuple[int, int]] = []
    view = memoryview(payload)
    starts = starts_of(header.sizes)
    for row, (start, size) in enumerate(zip(starts.tolist(), header.sizes.tolist(), strict=True)):
        found = _FIELDS.unpack_from(view, start)
        crc, body_bytes = found[2], found[6]
        body_stop = start + layout.RECORD_HEADER_BYTES + body_bytes
        if body_bytes < 0 or body_stop > start + size - 3:
            return None
        body = view[start + layout.RECORD_HEADER_BYTES : body_stop]
        body_off_by = (crc32(body) & layout.BODY_CRC_MASK) ^ crc
        if body_off_by:
            rows.append(row)
            zeros = bytes(header.payload_bytes - body_stop)
            # The sign bit of the sum is not kept, so there are two sums it may have been.
            parts.append(
                (_behind(body_off_by, zeros), _behind(body_off_by ^ 0x80000000, zeros)),
            )
            if len(rows) > _BAD_BODIES_MAX:
                return None
    for chosen in product(*parts):
        total = 0
        for part in chosen:
            total ^= part
        if rows and total == off_by:
            return tuple(rows)
    return None


def _behind(off_by: int, zeros: bytes) -> int:
    """Return what a checksum is off by when so many right bytes follow."""
    return crc32(zeros, off_by) ^ crc32(zeros, 0)


def records_within(view: memoryview, log_offset: int) -> Iterator[FoundRecord]:
    """Find the records that say themselves that they lie here, in order; frame headers too.

    Their position and sizes fit; nothing else of them is proven.
    """
    data = view.tobytes()
    at = data.find(_MAGIC)
    while at >= 0:
        start = at - _MAGIC_AT
        found = _record_at(data, start, log_offset + start) if start >= 0 else None
        if found is not None:
            yield found
        at = data.find(_MAGIC, at + 1 if found is None else start + found.size_bytes)


def _record_at(data: bytes, start: int, log_offset: int) -> FoundRecord | None:
    if start + layout.RECORD_FIXED_BYTES > len(data):
        return None
    total, _, _, queue, queue_offset, position, body_bytes = _FIELDS.unpack_from(data, start)
    topic_at = start + layout.RECORD_HEADER_BYTES + body_bytes
    is_right = (
        position == log_offset
        and layout.RECORD_FIXED_BYTES <= total <= len(data) - start
        and 0 <= body_bytes <= total - layout.RECORD_FIXED_BYTES
        and queue >= 0
        and queue_offset >= 0
    )
    if not is_right or topic_at + 1 + data[topic_at] + 2 > start + total:
        return None
    try:
        topic = data[topic_at + 1 : topic_at + 1 + data[topic_at]].decode()
    except UnicodeDecodeError:
        return None
    return FoundRecord(
        start=start, size_bytes=total, topic=topic, queue=queue, queue_offset=queue_offset
    )


def lost_messages(found: Iterable[FoundRecord]) -> tuple[LostMessages, ...]:
    """Return the messages of records as runs of queue offsets, by topic and queue."""
    offsets: dict[tuple[str, int], set[int]] = {}
    for record in found:
        if record.topic != layout.FRAME_TOPIC.decode():
            offsets.setdefault((record.topic, record.queue), set()).add(record.queue_offset)
    return tuple(
        LostMessages(topic=topic, queue=queue, first=first, last=last)
        for (topic, queue), numbers in sorted(offsets.items())
        for first, last in runs(sorted(numbers))
    )


def runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Split ascending numbers into runs, ends included."""
    first = last = -1
    for number in numbers:
        if first >= 0 and number != last + 1:
            yield first, last
            first = -1
        first = number if first < 0 else first
        last = number
    if first >= 0:
        yield first, last


def is_all(found: Sequence[FoundRecord], length_bytes: int) -> bool:
    """Say whether records, with the headers of their frames, fill a stretch of so many bytes.

    A header that does not verify is not among `found`; it has the length its records ask for.
    """
    at, count_at_last, waiting = 0, 0, -1
    for record in found:
        if record.start != at:
            if record.start < at or waiting >= 0:
                return False
            waiting, count_at_last = record.start - at, 0
        is_header = record.topic == layout.FRAME_TOPIC.decode()
        count_at_last += 0 if is_header else 1
        at = record.start + record.size_bytes
    if at != length_bytes:
        return False
    return waiting < 0 or waiting == frame_header_bytes(count_at_last)
