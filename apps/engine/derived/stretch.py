"""Frames that were read together, seen as one run of records: what the derived files are made of.

Knows frames and columns; no files. Finding the columns of a thousand records costs little more than
finding those of one, and a frame may hold one alone.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import queue_entries
from apps.engine.codec.layout import SCHEDULE_TOPIC
from apps.engine.codec.scan import Properties, QueueRun, columns, due_times, tag_hashes
from apps.engine.log.tail import Frame


class Stretch:
    """The records of frames of one chunk, in order: valid for as long as the frames are.

    `starts` int64[n] is where each record starts in `chunk`, `sizes` int32[n] how long it is and
    `counts` int64[k] how many each frame has. The queue offsets of a run that has no holes count up
    through all frames.
    """

    __slots__ = ("chunk", "counts", "frames", "log_offset", "properties", "runs", "sizes", "starts")

    runs: list[QueueRun]
    properties: Properties

    def __init__(self, frames: Sequence[Frame]) -> None:
        """Find the columns of frames that were read together, at least one."""
        self.frames = frames
        self.chunk = frames[0].chunk
        self.log_offset = frames[0].chunk_start
        headers = [frame.header for frame in frames]
        self.counts = np.array([len(header.sizes) for header in headers], dtype=np.int64)
        self.sizes = np.concatenate([header.sizes for header in headers])
        ends = np.cumsum(self.sizes, dtype=np.int64)
        # Where the records of a frame start, and where they would if there were no headers.
        at = np.array([frame.payload_log_offset for frame in frames]) - self.log_offset
        before = np.cumsum([0] + [header.payload_bytes for header in headers[:-1]])
        self.starts = ends - self.sizes + np.repeat(at - before, self.counts)
        self.runs, self.properties = columns(self.chunk, self.starts, self.sizes)

    @property
    def end(self) -> int:
        """Return the log offset behind the last frame."""
        return self.frames[-1].end

    def entries(self) -> NDArray[np.void]:
        """Return the consume-queue entry of each record: QUEUE_ENTRY[n]."""
        hashes = tag_hashes(self.properties)
        for run in self.runs:
            if run.topic == SCHEDULE_TOPIC:
                hashes[run.rows] = due_times(self.properties, run.rows)
        return queue_entries(self.starts, self.sizes, hashes, log_offset=self.log_offset)
