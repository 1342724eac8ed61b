"""Writes gathered in memory and given to the system in larger ones. Knows bytes, no frames.

RocketMQ's transient store pool: what is written lies in a buffer of this process first. It is
committed to the page cache now and then, when the buffer is full, and before every sync. Until then
a kill of the process loses it, so nobody may be told that it survives one.
"""

import threading
from collections.abc import Sequence

from apps.engine.errors import StoreFull, WriteFailed
from apps.engine.files.backend import Buffer
from apps.engine.files.segments import Segments


class Pool:
    """A bounded buffer in front of segments: bytes in a row, the last that were written.

    Writing and committing belong to one thread; reading may happen in others.
    """

    def __init__(self, segments: Segments, *, pool_bytes: int) -> None:
        """Gather up to `pool_bytes`; they are taken from the system at once."""
        self.commit_count = 0
        self._segments = segments
        self._memory = memoryview(bytearray(pool_bytes))
        self._start = 0
        self._length = 0
        self._mutex = threading.Lock()

    @property
    def pooled_bytes(self) -> int:
        """Return how much lies here and nowhere else."""
        return self._length

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Take the buffers end to end; they must lie in one segment. Raises WriteFailed."""
        total = sum(map(len, buffers))
        is_next = offset == self._start + self._length
        is_same = self._segments.base(offset) == self._segments.base(self._start)
        if not is_next or not is_same or self._length + total > len(self._memory):
            self.commit()
        if total > len(self._memory):
            self._segments.write(offset, buffers)
            self.commit_count += 1
            return
        with self._mutex:
            if not self._length:
                self._start = offset
            at = self._length
            for buffer in buffers:
                self._memory[at : at + len(buffer)] = memoryview(buffer).cast("B")
                at += len(buffer)
            self._length = at

    def commit(self) -> None:
        """Give the system what is gathered, in one write. Raises WriteFailed."""
        if not self._length:
            return
        try:
            self._segments.write(self._start, [self._memory[: self._length]])
        except StoreFull as error:
            # "Full" would promise that nothing is lost; these messages were taken.
            raise WriteFailed(str(error)) from error
        self.commit_count += 1
        with self._mutex:
            self._length = 0

    def read_into(self, offset: int, target: memoryview, *, wait: bool = True) -> None:
        """Fill `target` from the segments and from what is gathered. See Segments."""
        # Taken first: what is committed while the segments are read is then in both.
        with self._mutex:
            first = max(offset, self._start)
            stop = min(offset + len(target), self._start + self._length)
            ours = b""
            if first < stop:
                ours = bytes(self._memory[first - self._start : stop - self._start])
        self._segments.read_into(offset, target, wait=wait)
        if ours:
            target[first - offset : stop - offset] = ours
