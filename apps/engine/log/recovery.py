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
from apps.engine.log.damage import STORE_ID_AT, assess
from apps.engine.log.quarantine import Quarantine
from apps.engine.log.tail import FrameReader, InvalidFrame, check_place, header_at
from apps.engine.types import QuarantinedRange

_CHUNK_BYTES = 1 << 20
_ZEROS = bytes(_CHUNK_BYTES)


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
    damage: tuple[QuarantinedRange, ...] = ()
    """What was on the disk once and is not what was written, found by this scan."""

    @property
    def cut_bytes(self) -> int:
        """Return how far behind the end something was written."""
        return self.leftovers[-1][1] - self.end if self.leftovers else 0


def examine(
    segments: Segments,
    checkpoint: LogCheckpoint,
    *,
    store_id: bytes,
    epoch: int,
    quarantine: Quarantine,
) -> Findings:
    """Read the log behind the checkpoint and decide where it ends. Changes nothing.

    `epoch` is the last one that was given out. Where a later frame proves that a bad place was on
    the disk, the scan goes on behind it. Raises StoreDamaged when segments are missing,
    ForeignSegment when bytes belong elsewhere.
    """
    start = checkpoint.synced_offset
    if not segments.start <= start < segments.end:
        raise StoreDamaged(
            f"the log was synced up to {start}, its segments hold {segments.start} "
            f"to {segments.end}"
        )
    check_segments(segments, store_id)
    if checkpoint.clean and _is_blank(segments, start):
        return Findings(
            start=start,
            synced_offset=start,
            end=start,
            records=0,
            store_time_ms=checkpoint.store_time_ms,
            leftovers=(),
            reason="",
        )
    scan = _Scan(segments, checkpoint, store_id=store_id, epoch=epoch)
    damage: list[QuarantinedRange] = []
    while True:
        error = scan.run(quarantine)
        end = error.log_offset
        leftovers = tuple(_leftovers(segments, end))
        later = _later_headers(segments, leftovers, store_id)
        synced = max((header.synced_log_offset for header in later), default=0)
        if synced <= end:
            break
        found = assess(segments, end, segments.end, store_id=store_id, reason=error.reason)
        damage += found.ranges
        scan.synced = max(scan.synced, end)
        scan.reader.log_offset = found.resume
    return Findings(
        start=start,
        synced_offset=scan.synced,
        end=end,
        records=scan.records,
        store_time_ms=scan.store_time_ms,
        leftovers=leftovers,
        reason=error.reason,
        damage=tuple(damage),
    )


class _Scan:
    """Frames from the checkpoint on, and what they say."""

    def __init__(
        self, segments: Segments, checkpoint: LogCheckpoint, *, store_id: bytes, epoch: int
    ) -> None:
        self.reader = FrameReader(
            segments,
            log_offset=checkpoint.synced_offset,
            store_id=store_id,
            epoch_min=checkpoint.epoch,
        )
        self.synced = checkpoint.synced_offset
        self.records = 0
        self.store_time_ms = checkpoint.store_time_ms
        self._epoch = epoch

    def run(self, quarantine: Quarantine) -> InvalidFrame:
        """Go on to the first place that does not verify and is not known as a gap."""
        while True:
            known = quarantine.gap_at(self.reader.log_offset)
            if known is not None:
                self.reader.log_offset = known.end
                continue
            try:
                header = self.reader.next().header
            except InvalidFrame as error:
                if quarantine.gap_at(error.log_offset) is not None:
                    continue
                return error
            if header.epoch > self._epoch:
                raise StoreDamaged(
                    f"epoch {header.epoch} is in the log, {self._epoch} was the last"
                )
            self.synced = max(self.synced, header.synced_log_offset)
            self.records += len(header.sizes)
            self.store_time_ms = max(self.store_time_ms, header.store_time_ms)


def repair(segments: Segments, findings: Findings) -> None:
    """Put the log on the disk up to its end, and zeros where something lay behind it.

    The tail is written again although it reads well: after a failed sync the system shows bytes
    that the disk does not have and a later sync does not bring there. Raises WriteFailed,
    StoreFull or SyncFailed.
    """
    touched = findings.synced_offset
    buffer = np.empty(_CHUNK_BYTES, dtype=np.uint8).data
    for start, stop in _steps(segments, findings.synced_offset, findings.end):
        chunk = buffer[: stop - start]
        segments.read_into(start, chunk)
        segments.write(start, [chunk])
        touched = stop
    for first, last in findings.leftovers:
        for start, stop in _steps(segments, first, last):
            segments.write(start, [memoryview(_ZEROS)[: stop - start]])
            touched = stop
    if touched > findings.synced_offset:
        for file in segments.files(findings.synced_offset, touched):
            file.sync()


def check_segments(segments: Segments, store_id: bytes) -> None:
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
    """Find what is not zero from `end` to the last segment's end: one range a chunk.

    Where the file system says that nothing was written, nothing is read: of a gigabyte that was
    allocated ahead that would fill as much memory with zeros. Were it wrong, old bytes would stay
    behind the log's end, and do no harm: whatever is appended over them has a higher epoch, a frame
    of an earlier one does not continue it, and one that was cut never says that more was synced
    than was found.
    """
    buffer = np.empty(_CHUNK_BYTES, dtype=np.uint8)
    for first_data, last_data in segments.data(end):
        for start, stop in _steps(segments, first_data, last_data):
            chunk = buffer[: stop - start]
            segments.read_into(start, chunk.data)
            if _ZEROS.startswith(chunk.data):
                continue
            is_written = chunk != 0
            first = int(is_written.argmax())
            yield start + first, stop - int(is_written[::-1].argmax())


def _later_headers(
    segments: Segments, leftovers: tuple[tuple[int, int], ...], store_id: bytes
) -> Iterator[FrameHeader]:
    """Find whole frame headers of this store, wherever they start."""
    for first, last in leftovers:
        # A header may begin in the range before, or its store id reach into the next.
        start = max(first - STORE_ID_AT, segments.start)
        window = bytearray(min(last + len(store_id), segments.end) - start)
        segments.read_into(start, memoryview(window))
        at = window.find(store_id)
        while at >= 0:
            log_offset = start + at - STORE_ID_AT
            with suppress(BadFrame):
                yield decode_frame_header(header_at(segments, log_offset), log_offset=log_offset)
            at = window.find(store_id, at + 1)
