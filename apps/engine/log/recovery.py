"""Find the end of the log after an unclean stop, and make disk and log agree on it.

Two steps: `examine` reads and decides and changes nothing, so that a log that must not be touched
is not; `repair` carries the decision out and can be repeated after a crash in the middle of it.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from apps.engine.codec import layout
from apps.engine.codec.frame import BadFrame, FrameHeader, decode_frame_header
from apps.engine.errors import StoreDamaged
from apps.engine.files.segments import Segments
from apps.engine.log.checkpoint import LogCheckpoint
from apps.engine.log.tail import FrameReader, InvalidFrame, check_place, header_at

_CHUNK_BYTES = 1 << 20
_ZEROS = bytes(_CHUNK_BYTES)
# Where a frame header keeps the store id: behind the record header, 32 bytes into the body.
_STORE_ID_AT = layout.RECORD_HEADER_BYTES + 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a log turned out to hold."""

    start: int
    """Where the scan began."""
    synced_offset: int
    """Up to here the log's own frames prove that it was synced."""
    end: int
    records: int
    store_time_ms: int
    leftovers: tuple[tuple[int, int], ...]
    """Ranges behind the end that hold something else than zeros."""
    reason: str
    """Why the log ends where it does."""

    @property
    def cut_bytes(self) -> int:
        """Return how far behind the end something was written."""
        return self.leftovers[-1][1] - self.end if self.leftovers else 0


def examine(
    segments: Segments, checkpoint: LogCheckpoint, *, store_id: bytes, epoch: int
) -> Findings:
    """Read the log behind the checkpoint and decide where it ends. Changes nothing.

    `epoch` is the last one that was given out. Raises StoreDamaged when bytes that were on the
    disk are gone or changed, ForeignSegment when they belong elsewhere.
    """
    start = checkpoint.synced_offset
    if not segments.start <= start < segments.end:
        raise StoreDamaged(
            f"the log was synced up to {start}, its segments hold {segments.start} "
            f"to {segments.end}"
        )
    _check_segments(segments, store_id)
    synced, records, store_time_ms = start, 0, checkpoint.store_time_ms
    reader = FrameReader(segments, log_offset=start, store_id=store_id, epoch_min=checkpoint.epoch)
    if checkpoint.clean and _is_blank(segments, start):
        return Findings(
            start=start,
            synced_offset=start,
            end=start,
            records=0,
            store_time_ms=store_time_ms,
            leftovers=(),
            reason="",
        )
    try:
        while True:
            header = reader.next().header
            if header.epoch > epoch:
                raise StoreDamaged(f"epoch {header.epoch} is in the log, {epoch} was the last")
            synced = max(synced, header.synced_log_offset)
            records += len(header.sizes)
            store_time_ms = max(store_time_ms, header.store_time_ms)
    except InvalidFrame as error:
        end, reason = error.log_offset, error.reason
    leftovers = tuple(_leftovers(segments, end))
    for header in _later_headers(segments, leftovers, store_id):
        if header.synced_log_offset > end:
            raise StoreDamaged(
                f"at log offset {end}: {reason}; the frame at {header.log_offset} proves that "
                f"the log was on the disk up to {header.synced_log_offset}"
            )
    return Findings(
        start=start,
        synced_offset=synced,
        end=end,
        records=records,
        store_time_ms=store_time_ms,
        leftovers=leftovers,
        reason=reason,
    )


def repair(segments: Segments, findings: Findings) -> None:
    """Put the log on the disk up to its end, and zeros where something lay behind it.

    The tail is written again although it reads well: after a failed sync the system shows bytes
    that the disk does not have and a later sync does not bring there. Raises WriteFailed,
    StoreFull or SyncFailed.
    """
    touched = findings.synced_offset
    for start, stop in _steps(segments, findings.synced_offset, findings.end):
        chunk = bytearray(stop - start)
        segments.read_into(start, memoryview(chunk))
        segments.write(start, [chunk])
        touched = stop
    for first, last in findings.leftovers:
        for start, stop in _steps(segments, first, last):
            segments.write(start, [memoryview(_ZEROS)[: stop - start]])
            touched = stop
    if touched > findings.synced_offset:
        for file in segments.files(findings.synced_offset, touched):
            file.sync()


def _check_segments(segments: Segments, store_id: bytes) -> None:
    """Raise ForeignSegment when a segment begins with a frame of another place or store."""
    for base in range(segments.start, segments.end, segments.segment_bytes):
        check_place(header_at(segments, base), base, store_id)


def _is_blank(segments: Segments, log_offset: int) -> bool:
    prefix = bytearray(layout.FILLER_BYTES)
    segments.read_into(log_offset, memoryview(prefix))
    return not any(prefix)


def _steps(segments: Segments, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Split a range so that no part is long or lies in two segments."""
    while start < stop:
        border = segments.base(start) + segments.segment_bytes
        step = min(stop, border, start + _CHUNK_BYTES)
        yield start, step
        start = step


def _leftovers(segments: Segments, end: int) -> Iterator[tuple[int, int]]:
    """Find what is not zero from `end` to the last segment's end: one range a chunk."""
    chunk = bytearray(_CHUNK_BYTES)
    for start, stop in _steps(segments, end, segments.end):
        view = memoryview(chunk)[: stop - start]
        segments.read_into(start, view)
        if _ZEROS.startswith(view):
            continue
        is_written = np.frombuffer(view, dtype=np.uint8) != 0
        first = int(is_written.argmax())
        yield start + first, stop - int(is_written[::-1].argmax())


def _later_headers(
    segments: Segments, leftovers: tuple[tuple[int, int], ...], store_id: bytes
) -> Iterator[FrameHeader]:
    """Find whole frame headers of this store, wherever they start."""
    for first, last in leftovers:
        # A header may begin in the range before, or its store id reach into the next.
        start = max(first - _STORE_ID_AT, segments.start)
        window = bytearray(min(last + len(store_id), segments.end) - start)
        segments.read_into(start, memoryview(window))
        at = window.find(store_id)
        while at >= 0:
            log_offset = start + at - _STORE_ID_AT
            with suppress(BadFrame):
                yield decode_frame_header(header_at(segments, log_offset), log_offset=log_offset)
            at = window.find(store_id, at + 1)
