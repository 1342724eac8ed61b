"""The frame header: what makes one write to the log verifiable as a whole. Knows bytes only.

A header is a V1 record of topic `rmq_sys_frame` whose body tells where the frame lies, who wrote it
and how long each record behind it is; docs/FORMAT.md section 2 has the table.
"""

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec import layout
from apps.engine.codec.batch import size_bounds
from apps.engine.codec.checksum import Buffer
from apps.engine.codec.record import encode_record_header

FRAME_VERSION = 1
_SIZE = np.dtype(">i4")
_BODY = struct.Struct(">HHIqqq16sIIII")
_BODY_START = layout.RECORD_HEADER_BYTES
# Where a header says how long its records are together, as ">I".
PAYLOAD_BYTES_AT = _BODY_START + 52
FRAME_HEADER_FIXED_BYTES = layout.RECORD_FIXED_BYTES + len(layout.FRAME_TOPIC) + _BODY.size

_NO_HOST = bytes(8)
# The topic with its length, and no properties.
_BEHIND_BODY = bytes((len(layout.FRAME_TOPIC),)) + layout.FRAME_TOPIC + bytes(2)

assert _BODY.size == 64
assert FRAME_HEADER_FIXED_BYTES == 168


class BadFrame(ValueError):
    """The bytes are not a whole, unchanged frame header."""


# Not frozen: one is made for every write, and freezing a class triples what making one costs.
@dataclass(slots=True, kw_only=True, eq=False)
class FrameHeader:
    """What a frame says of itself. `sizes` is int32[n], the length of each record."""

    epoch: int
    log_offset: int
    synced_log_offset: int
    store_time_ms: int
    store_id: bytes
    sizes: NDArray[np.int32]
    payload_bytes: int
    payload_crc: int

    @property
    def header_bytes(self) -> int:
        """Return the length of the header record."""
        return frame_header_bytes(len(self.sizes))

    @property
    def end(self) -> int:
        """Return the log offset behind the frame's last record."""
        return self.log_offset + frame_header_bytes(len(self.sizes)) + self.payload_bytes


def frame_header_bytes(record_count: int) -> int:
    """Return how long the header of a frame with so many records is."""
    return FRAME_HEADER_FIXED_BYTES + 4 * record_count


def encode_frame_header(header: FrameHeader) -> bytes:
    """Return the header record; equal headers give equal bytes, and nothing in them is free."""
    sizes = header.sizes
    body = _BODY.pack(
        FRAME_VERSION,
        0,
        header.epoch,
        header.log_offset,
        header.synced_log_offset,
        header.store_time_ms,
        header.store_id,
        len(sizes),
        header.payload_bytes,
        header.payload_crc,
        0,
    )
    body += sizes.astype(_SIZE).tobytes()
    return _before_body(body, header.log_offset, header.store_time_ms) + body + _BEHIND_BODY


def _before_body(body: Buffer, log_offset: int, store_time_ms: int) -> bytes:
    """Return the fixed part of a header record."""
    total = _BODY_START + len(body) + len(_BEHIND_BODY)
    return encode_record_header(
        total, body, 0, 0, log_offset, 0, store_time_ms, _NO_HOST, store_time_ms
    )


def decode_frame_header(view: memoryview, *, log_offset: int) -> FrameHeader:
    """Return the header at the start of `view`, which must have been written for `log_offset`.

    Raises BadFrame when a single bit differs from what `encode_frame_header` would write, when
    the view is too short, or when the record sizes cannot be right.
    """
    if len(view) < FRAME_HEADER_FIXED_BYTES:
        raise BadFrame("shorter than a frame header")
    (
        version,
        flags,
        epoch,
        position,
        synced,
        store_time_ms,
        store_id,
        count,
        payload,
        crc,
        reserved,
    ) = _BODY.unpack_from(view, _BODY_START)
    if version != FRAME_VERSION or position != log_offset:
        raise BadFrame("not a frame header written for this place")
    if len(view) < frame_header_bytes(count) or count == 0:
        raise BadFrame("shorter than the record sizes it announces, or announces none")
    body_end = _BODY_START + _BODY.size + 4 * count
    body = view[_BODY_START:body_end]
    # All else of a header follows from its body: compared with what would be written around it.
    total = body_end + len(_BEHIND_BODY)
    before = _before_body(body, log_offset, store_time_ms)
    is_same = view[:_BODY_START] == before and view[body_end:total] == _BEHIND_BODY
    if flags or reserved or not is_same:
        raise BadFrame("a header field was changed")
    sizes = np.frombuffer(body, dtype=_SIZE, offset=_BODY.size).astype(np.int32)
    smallest, sum_bytes = size_bounds(sizes)
    if smallest < layout.RECORD_FIXED_BYTES or sum_bytes != payload:
        raise BadFrame("record sizes do not add up to the payload")
    return FrameHeader(
        epoch=epoch,
        log_offset=log_offset,
        synced_log_offset=synced,
        store_time_ms=store_time_ms,
        store_id=store_id,
        sizes=sizes,
        payload_bytes=payload,
        payload_crc=crc,
    )
