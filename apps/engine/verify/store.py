"""A store that is looked at and not owned: nothing is locked, recovered or written.

Knows what of the log may be believed: all up to its end where the store is stopped, and up to the
last checkpoint where a broker is writing to it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from apps.engine.errors import EngineError, StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.files.segments import Segments
from apps.engine.log.checkpoint import LogCheckpoint, load_checkpoint
from apps.engine.log.identity import Identity, load_identity
from apps.engine.log.quarantine import Quarantine, open_quarantine
from apps.engine.log.retained import Retained, load_retained
from apps.engine.log.tail import Frame, FrameReader, InvalidFrame
from apps.engine.log.walking import walk
from apps.engine.types import QuarantinedRange


@dataclass(slots=True, kw_only=True)
class Store:
    """What walks look at. `progress` is told log offsets as a walk goes on."""

    disk: Disk
    identity: Identity
    checkpoint: LogCheckpoint
    segments: Segments
    retained: Retained
    """Where log and queues begin, if something was deleted."""
    quarantine: Quarantine
    end: int
    """The log is looked at up to here."""
    tail_reason: str
    """Why it ends here, where something lies behind that is no frame."""
    is_running: bool = False
    progress: Callable[[int], None] = field(default=lambda _offset: None)

    def reach(self, log_offset: int) -> None:
        """Look at the log up to here too, if a broker is writing.

        A checkpoint that came since says that it is synced up to here. Where nobody writes, a
        checkpoint beyond the log's end is damage, and the end stays.
        """
        if not self.is_running or log_offset <= self.end:
            return
        if log_offset > self.segments.end:
            self.segments.close()
            self.segments = _segments(self.disk, self.identity, self.retained)
        self.end = min(log_offset, self.segments.end)

    def frames(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        found: Callable[[QuarantinedRange], object] = lambda _range: None,
    ) -> Iterator[Frame]:
        """Iterate over the frames that can be read; what is damaged is told to `found`."""
        frames = walk(
            self.segments,
            start=self.segments.start if start is None else start,
            stop=self.end if stop is None else min(stop, self.end),
            store_id=self.identity.store_id,
            quarantine=self.quarantine,
            found=found,
        )
        for frame in frames:
            self.progress(frame.end)
            yield frame

    def close(self) -> None:
        """Close the log's files."""
        self.segments.close()


def open_store(disk: Disk, *, is_running: bool) -> Store:
    """Look at a store. Raises StoreDamaged, ForeignSegment or UnknownFormat where nothing can be.

    With `is_running` the log is looked at up to its last checkpoint: what lies behind may be half
    written at this moment.
    """
    identity = load_identity(disk)
    if identity is None:
        raise StoreDamaged("there is no store, or its identity is missing")
    retained = load_retained(disk)
    segments = _segments(disk, identity, retained)
    try:
        quarantine = open_quarantine(disk, segments, failpoints=Failpoints())
        checkpoint = _checkpoint(disk, segments)
        end, reason = checkpoint.synced_offset, ""
        if not is_running and segments.start <= end < segments.end:
            end, reason = _end_of(segments, identity, checkpoint)
        return Store(
            disk=disk,
            identity=identity,
            checkpoint=checkpoint,
            segments=segments,
            retained=retained,
            quarantine=quarantine,
            end=min(end, segments.end),
            tail_reason=reason,
            is_running=is_running,
        )
    except EngineError:
        segments.close()
        raise


def _segments(disk: Disk, identity: Identity, retained: Retained) -> Segments:
    return Segments(
        disk,
        "commitlog",
        segment_bytes=identity.segment_bytes,
        failpoints=Failpoints(),
        start=retained.log_start,
    )


def _checkpoint(disk: Disk, segments: Segments) -> LogCheckpoint:
    """Return the checkpoint; where it cannot be read, as if it were that of an empty log."""
    try:
        found = load_checkpoint(disk)
    except EngineError:
        found = None  # The walk over the small files says so.
    return found or LogCheckpoint(
        epoch=0,
        log_start=segments.start,
        synced_offset=segments.start,
        clean=False,
        store_time_ms=0,
    )


def _end_of(segments: Segments, identity: Identity, checkpoint: LogCheckpoint) -> tuple[int, str]:
    """Return where the log ends as the next opening will find it, and what lies there."""
    reader = FrameReader(
        segments,
        log_offset=checkpoint.synced_offset,
        store_id=identity.store_id,
        epoch_min=checkpoint.epoch,
    )
    while True:
        try:
            reader.next()
        except InvalidFrame as error:
            prefix = memoryview(bytearray(8))
            segments.read_into(error.log_offset, prefix)
            return error.log_offset, error.reason if any(prefix) else ""
