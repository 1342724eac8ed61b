"""What a reader of a store's files is told, and what it gets: values, no files.

A slice says which messages of a queue are wanted, a block has their records.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

OnLoss = Callable[[int, int, str], None]
"""Is told first and last of queue offsets that cannot be read, and why; may raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueExtent:
    """The messages of a queue that are there: `min_offset` up to, not with, `max_offset`."""

    topic: str
    queue: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSlice:
    """Messages `start` up to, not with, `stop` of a queue, as a task is told of them.

    Those below `kept_stop` are kept messages of a compacted topic: some are left out, which is no
    loss. Those from `tail_start` on have no entries in files: `frames`, int64[n, 2] in the
    machine's byte order, is where the frames begin and end that hold them.
    """

    topic: str
    queue: int
    start: int
    stop: int
    tail_start: int
    frames: bytes = b""
    kept_stop: int = 0

    def __len__(self) -> int:
        """Return how many messages that are, or were before compaction."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordBlock:
    """Records of one queue in order, and where each lies in `payload`: int64[n] and int32[n].

    `fixed` RECORD_HEADER[n] are their fixed parts, `offsets` int64[n] their queue offsets.
    """

    topic: str
    queue: int
    payload: bytes | bytearray
    starts: NDArray[np.int64]
    sizes: NDArray[np.int32]
    fixed: NDArray[np.void]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        """Return how many records these are."""
        return len(self.starts)

    @property
    def log_offset(self) -> int:
        """Return where the first record lies in the log; there must be one."""
        return int(self.fixed["log_offset"][0])

    def of(self, rows: slice | NDArray[np.bool_]) -> "RecordBlock":
        """Return some of the records, in the same payload."""
        return replace(
            self,
            starts=self.starts[rows],
            sizes=self.sizes[rows],
            fixed=self.fixed[rows],
            offsets=self.offsets[rows],
        )
