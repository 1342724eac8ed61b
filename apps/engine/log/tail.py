"""Walk the log frame by frame and verify each. Knows frames, not what their records mean."""

import struct
from dataclasses import dataclass, replace

import numpy as np

from apps.engine.codec import layout
from apps.engine.codec.blame import bad_bodies
from apps.engine.codec.checksum import crc32
from apps.engine.codec.frame import (
    FRAME_HEADER_FIXED_BYTES,
    PAYLOAD_BYTES_AT,
    BadFrame,
    FrameHeader,
    decode_frame_header,
    frame_header_bytes,
)
from apps.engine.errors import ForeignSegment, StoreDamaged
from apps.engine.files.segments import Segments

# Frames are read many at a time. More than a large batch, so that few are read in two parts.
_READ_BYTES = 4 << 20
# Bounds what a damaged length can make a reader fetch; 65,536 records of one request fit often.
FRAME_RECORDS_MAX = 1 << 18
_HEADER_BYTES_MAX = frame_header_bytes(FRAME_RECORDS_MAX)
_PREFIX = struct.Struct(">ii")
_PAYLOAD_BYTES = struct.Struct(">I")
# A header's own idea of where it lies.
_POSITION = struct.Struct(">q")
_POSITION_AT = layout.RECORD_HEADER_BYTES + 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """A frame as it lies in the log, verified. `payload` is the records end to end.

    `bad_rows` numbers the records whose bodies are not what was written; all else of them is.
    `chunk` is what was read together with it, from `chunk_start` of the log on. Both are views of
    memory that is used again, valid until the reader is asked for more.
    """

    header: FrameHeader
    payload: memoryview
    bad_rows: tuple[int, ...] = ()
    chunk: memoryview
    chunk_start: int

    @property
    def log_offset(self) -> int:
        """Return where the header starts."""
        return self.header.log_offset

    @property
    def payload_log_offset(self) -> int:
        """Return where the first record starts."""
        return self.header.log_offset + self.header.header_bytes

    @property
    def end(self) -> int:
        """Return the log offset behind the last record."""
        return self.header.end

    def kept(self) -> "Frame":
        """Return the same frame in memory of its own, valid for as long as anybody holds it."""
        payload = memoryview(bytes(self.payload))
        start = self.payload_log_offset
        return replace(self, payload=payload, chunk=payload, chunk_start=start)


class InvalidFrame(Exception):
    """What lies at `log_offset` is not a valid continuation of the log; the text says why."""

    def __init__(self, log_offset: int, reason: str) -> None:
        """Say where and why."""
        super().__init__(f"at log offset {log_offset}: {reason}")
        self.log_offset = log_offset
        self.reason = reason


class FrameReader:
    """Read frames one after the other from `log_offset` on."""

    def __init__(
        self,
        segments: Segments,
        *,
        log_offset: int,
        store_id: bytes,
        epoch_min: int,
        is_lenient: bool = False,
    ) -> None:
        """Start at `log_offset`, where a frame, a filler or the end of the log must be.

        With `is_lenient` a frame counts as valid of which only bodies of records are bad, which is
        right for what was on the disk once, and a frame of another place is merely invalid.
        """
        self.log_offset = log_offset
        self._is_lenient = is_lenient
        self._segments = segments
        self._store_id = store_id
        self._epoch_min = epoch_min
        self._chunk = memoryview(b"")
        self._chunk_start = log_offset
        # One for all that is read: touching fresh memory costs more than reading into it.
        self._buffer = memoryview(b"")

    def next(self) -> Frame:
        """Return the next valid frame and move behind it; skip fillers.

        Raises InvalidFrame, with `log_offset` where the log can no longer be followed,
        ForeignSegment for a frame of another store or written for another place, and
        StoreDamaged when the segment behind a filler is missing.
        """
        while True:
            left = self._segments.segment_bytes - self.log_offset % self._segments.segment_bytes
            total, magic = self._prefix(left)
            if magic != layout.FILLER_MAGIC or total != left:
                break
            self.log_offset += left
            if self.log_offset >= self._segments.end:
                raise StoreDamaged(f"{self._segments.path(self.log_offset)} is missing")
        if total == 0 and magic == 0:
            raise InvalidFrame(self.log_offset, "nothing was written here")
        room = left - layout.FILLER_BYTES
        longest = min(room, _HEADER_BYTES_MAX)
        if magic != layout.RECORD_MAGIC or not FRAME_HEADER_FIXED_BYTES <= total <= longest:
            raise InvalidFrame(self.log_offset, "no frame starts here")
        header = self._header(self._view(total))
        frame_bytes = total + header.payload_bytes
        if frame_bytes > room:
            raise InvalidFrame(self.log_offset, "a frame is longer than its segment")
        payload = self._view(frame_bytes)[total:frame_bytes]
        bad_rows: tuple[int, ...] | None = ()
        if crc32(payload) != header.payload_crc:
            bad_rows = bad_bodies(header, payload) if self._is_lenient else None
        if bad_rows is None:
            raise InvalidFrame(self.log_offset, "a frame's records do not have their checksum")
        self.log_offset += frame_bytes
        self._epoch_min = header.epoch
        return Frame(
            header=header,
            payload=payload,
            bad_rows=bad_rows,
            chunk=self._chunk,
            chunk_start=self._chunk_start,
        )

    def read_on(self, stop: int | None = None) -> list[Frame]:
        """Return the next frame, and those behind it that were read together with it.

        None that begins at `stop` or behind it is looked at, but for the first. All of them are
        valid until the next call. Raises what `next` raises, with no frame passed.
        """
        frames = [self.next()]
        while (stop is None or self.log_offset < stop) and self._is_at_hand():
            try:
                frames.append(self.next())
            except InvalidFrame:
                break  # The next call says so.
        return frames

    def _is_at_hand(self) -> bool:
        """Say whether a frame seems to start here and nothing need be read to see all of it."""
        at = self.log_offset - self._chunk_start
        if at + FRAME_HEADER_FIXED_BYTES > len(self._chunk):
            return False
        total, magic = _PREFIX.unpack_from(self._chunk, at)
        (payload_bytes,) = _PAYLOAD_BYTES.unpack_from(self._chunk, at + PAYLOAD_BYTES_AT)
        is_whole = at + total + payload_bytes <= len(self._chunk)
        return bool(magic == layout.RECORD_MAGIC and total > 0 and is_whole)

    def _prefix(self, left: int) -> tuple[int, int]:
        if left < layout.FILLER_BYTES:
            raise InvalidFrame(self.log_offset, "no frame ends so close to a segment's end")
        total, magic = _PREFIX.unpack_from(self._view(layout.FILLER_BYTES))
        return int(total), int(magic)

    def _header(self, view: memoryview) -> FrameHeader:
        try:
            header = decode_frame_header(view, log_offset=self.log_offset)
        except BadFrame as error:
            if not self._is_lenient:
                check_place(view, self.log_offset, self._store_id)
            raise InvalidFrame(self.log_offset, str(error)) from error
        if header.store_id != self._store_id and self._is_lenient:
            raise InvalidFrame(self.log_offset, "a frame of another store")
        if header.store_id != self._store_id:
            raise ForeignSegment(
                f"{self._segments.path(self.log_offset)} was written by store "
                f"{header.store_id.hex()}"
            )
        if header.epoch < self._epoch_min:
            raise InvalidFrame(self.log_offset, "a frame of an earlier epoch, cut before")
        return header

    def _view(self, size_bytes: int) -> memoryview:
        """Return at least `size_bytes` from the current place, which must be in one segment."""
        skip = self.log_offset - self._chunk_start
        if not 0 <= skip <= len(self._chunk) - size_bytes:
            # What of it was read is copied; a place before the chunk, or behind it, begins anew.
            known = self._chunk[skip:] if skip >= 0 else self._chunk[:0]
            left = self._segments.segment_bytes - self.log_offset % self._segments.segment_bytes
            chunk = self._room(min(max(size_bytes, _READ_BYTES), left))
            chunk[: len(known)] = known
            self._segments.read_into(self.log_offset + len(known), chunk[len(known) :])
            self._chunk, self._chunk_start, skip = chunk, self.log_offset, 0
        return self._chunk[skip:]

    def _room(self, size_bytes: int) -> memoryview:
        if len(self._buffer) < size_bytes:
            # Not a bytearray: it would be filled with zeros first.
            self._buffer = np.empty(size_bytes, dtype=np.uint8).data
        return self._buffer[:size_bytes]


def header_at(segments: Segments, log_offset: int) -> memoryview:
    """Return the bytes a frame header at `log_offset` would be; empty when there cannot be one."""
    left = segments.segment_bytes - log_offset % segments.segment_bytes
    if log_offset < segments.start or left < FRAME_HEADER_FIXED_BYTES:
        return memoryview(b"")
    prefix = bytearray(_PREFIX.size)
    segments.read_into(log_offset, memoryview(prefix))
    total, magic = _PREFIX.unpack(prefix)
    if magic != layout.RECORD_MAGIC or not 0 < total <= min(left, _HEADER_BYTES_MAX):
        return memoryview(b"")
    head = memoryview(bytearray(total))
    segments.read_into(log_offset, head)
    return head


def check_place(view: memoryview, log_offset: int, store_id: bytes) -> None:
    """Raise ForeignSegment when `view` is a whole frame header of another place or store."""
    if len(view) < FRAME_HEADER_FIXED_BYTES:
        return
    (position,) = _POSITION.unpack_from(view, _POSITION_AT)
    try:
        header = decode_frame_header(view, log_offset=position)
    except BadFrame:
        return
    if header.store_id != store_id or position != log_offset:
        raise ForeignSegment(
            f"at log offset {log_offset} lies a frame that store {header.store_id.hex()} wrote "
            f"at {position}"
        )
