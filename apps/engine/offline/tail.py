"""The end of a log that another process writes: what it proves, and whose records lie in it.

Knows frames; no files of consume queues. Every frame says how far the log was synced when it was
made, and its checksums prove that it says what was written. So a frame that could be taken back by
a power cut proves that what lies below its word cannot be.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import starts_of
from apps.engine.codec.scan import queue_runs
from apps.engine.codec.windows import window
from apps.engine.errors import StoreDamaged
from apps.engine.files.segments import Segments
from apps.engine.log.quarantine import Quarantine
from apps.engine.log.tail import Frame, FrameReader, InvalidFrame

# So many records are looked through at once: few are slow one frame at a time.
_ROWS = 16_384
_BYTES = 8 << 20
_NOTHING = np.empty(0, dtype=np.int64)
_NO_FRAMES = np.empty((0, 2), dtype=np.int64)

Key = tuple[str, int]


@dataclass(slots=True)
class QueueTail:
    """Messages of one queue behind its files: `first` int64[k] of each of k frames, ascending.

    `frames` int64[k, 2] is where those frames begin and end in the log; `end` is behind the last
    message.
    """

    first: NDArray[np.int64] = field(default_factory=lambda: _NOTHING)
    frames: NDArray[np.int64] = field(default_factory=lambda: _NO_FRAMES)
    end: int = 0

    def add(self, first: NDArray[np.int64], frames: NDArray[np.int64], end: int) -> None:
        """Add what lies behind."""
        self.first = np.concatenate((self.first, first))
        self.frames = np.concatenate((self.frames, frames))
        self.end = end

    def frames_of(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the frames that have messages from `start` up to `stop`: int64[n, 2]."""
        low = max(int(np.searchsorted(self.first, start, side="right")) - 1, 0)
        return self.frames[low : int(np.searchsorted(self.first, stop))]

    def drop_below(self, log_offset: int) -> None:
        """Forget frames below a log offset: files have their entries."""
        kept = int(np.searchsorted(self.frames[:, 0], log_offset))
        self.first, self.frames = self.first[kept:], self.frames[kept:]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """Frames in log order, where the next begins, and how far the log is known to be synced."""

    frames: list[Frame]
    position: int
    synced: int
    is_last: bool
    """Nothing more lies behind them at this moment."""


def step(
    segments: Segments, *, position: int, synced: int, store_id: bytes, quarantine: Quarantine
) -> Step:
    """Read frames from `position` on, the start of one, until there are many or the log ends.

    Raises StoreDamaged where a place that was synced cannot be read and is not in quarantine.
    """
    reader = FrameReader(
        segments, log_offset=position, store_id=store_id, epoch_min=0, is_lenient=True
    )
    frames: list[Frame] = []
    rows = size_bytes = 0
    while rows < _ROWS and size_bytes < _BYTES:
        known = quarantine.gap_at(reader.log_offset)
        if known is not None:
            reader.log_offset = position = known.end
            continue
        frame = _next(reader, segments, synced, quarantine)
        if frame is None:
            return Step(frames=frames, position=position, synced=synced, is_last=True)
        synced = max(synced, frame.header.synced_log_offset)
        frames.append(frame.kept())
        rows += len(frame.header.sizes)
        size_bytes += len(frame.payload)
        position = frame.end
    return Step(frames=frames, position=position, synced=synced, is_last=False)


def _next(
    reader: FrameReader, segments: Segments, synced: int, quarantine: Quarantine
) -> Frame | None:
    """Return the next frame; None where the log ends, or is being written at this moment."""
    while True:
        start = reader.log_offset
        if start >= segments.end:
            return None
        try:
            frame = reader.next()
        except InvalidFrame as error:
            known = quarantine.gap_at(error.log_offset)
            if known is not None:
                reader.log_offset = known.end
                continue
            if error.log_offset < synced:
                raise StoreDamaged(f"the log was synced up to {synced}, but {error}") from error
            return None
        except StoreDamaged:
            # Behind a filler begins a segment that was not there when they were listed.
            if reader.log_offset < segments.end:
                raise
            return None
        # Of a frame that is being written, bodies may be all that is missing.
        return None if frame.bad_rows and frame.end > synced else frame


def collect(frames: Sequence[Frame], tails: dict[Key, QueueTail]) -> None:
    """Add the messages of frames, in log order, to the tails of their queues."""
    if not frames:
        return
    payload = b"".join([frame.payload for frame in frames])
    sizes = np.concatenate([frame.header.sizes for frame in frames])
    starts = starts_of(sizes)
    counts = [len(frame.header.sizes) for frame in frames]
    places = np.array([(frame.log_offset, frame.end) for frame in frames], dtype=np.int64)
    frame_of_row = np.repeat(np.arange(len(frames)), counts)
    offsets = window(payload, ">i8")[starts + 20]
    for run in queue_runs(payload, starts):
        frames_at = frame_of_row[run.rows]
        is_first = np.ones(len(frames_at), dtype=np.bool_)
        is_first[1:] = frames_at[1:] != frames_at[:-1]
        first = offsets[run.rows[is_first]].astype(np.int64)
        tail = tails.setdefault((run.topic, run.queue), QueueTail())
        tail.add(first, places[frames_at[is_first]], int(offsets[run.rows[-1]]) + 1)
