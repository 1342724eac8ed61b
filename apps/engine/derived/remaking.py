"""A damaged file of a consume queue made again while its store is open. Knows frames; no loop.

Its entries come from the log by the same dispatch that a start uses, into a queue that is in memory
only. What of the file is proven to be right, from its begin on, is left as it is.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.layout import QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.dispatch import steps
from apps.engine.derived.entrysums import EntrySums
from apps.engine.derived.filecache import FileCache
from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.files.refusals import write_refusal
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.quarantine import Quarantine
from apps.engine.types import LostMessages, QuarantinedRange


class QueueRemaking:
    """The entries that a file had when this was made, from the log once more.

    In this order: `look`, `steps`; where these have all entries, `write` and `take_place`.
    """

    def __init__(
        self,
        disk: Disk,
        queue: ConsumeQueue,
        number: int,
        *,
        file_entries: int,
        failpoints: Failpoints,
    ) -> None:
        """Take note of what is wanted. What is written from now on goes to a file of that name."""
        queue.forget_file(number)
        self.path = queue.path(number)
        self.number = number
        self.queue = queue
        self._disk = disk
        self._failpoints = failpoints
        self._file_entries = file_entries
        written, neighbour = queue.written(number), queue.written(number - 1)
        assert written is not None
        # Copies: the files go on growing.
        self._before = written.cut(written.stop)
        self._neighbour = None if neighbour is None else neighbour.cut(neighbour.stop)
        # What is right of the file, and what is added to it.
        self._kept = EntrySums(max(written.first, queue.entries_from))
        self._near: int | None = None
        self._made = ConsumeQueue(
            queue.topic, queue.queue, files=FileCache(disk), file_entries=file_entries
        )
        self._entries: NDArray[np.void] | None = None

    @property
    def is_proven(self) -> bool:
        """Say whether the log had all entries, or says which of the messages it has lost."""
        return self._entries is not None

    def look(self) -> None:
        """Find what of the file is right, and where in the log the rest is; for a thread.

        Raises OutOfMeans.
        """
        content = self._content(self.number, self._before)
        proven = self._before.proven(content)
        if proven > self._kept.first:
            self._kept = self._before.cut(proven)
            self._near = _last_place(content[: (proven - self._before.first) * QUEUE_ENTRY_BYTES])
        elif self._neighbour is not None:
            content = self._content(self.number - 1, self._neighbour)
            if self._neighbour.proven(content) == self._neighbour.stop:
                self._near = _last_place(content)

    def steps(self, log: CommitLog) -> Iterator[None]:
        """Make the entries, one stretch of the log a step.

        Raises StoreDamaged where the log does not have one between others.
        """
        first, stop = self._kept.stop, self._before.stop
        self._made.resume(min_offset=first, end=first)
        start = log.log_start
        if self._near is not None:
            # A segment begins with a frame.
            start = max(start, self._near - self._near % log.front.segment_bytes)
        taken = steps(
            log.stretches(start),
            _One(self._made),
            queues_from=start,
            quarantine=log.quarantine,
        )
        while self._made.end < stop and next(taken, None) is not None:
            yield
        self._entries = self._found(log.quarantine)

    def _found(self, quarantine: Quarantine) -> NDArray[np.void] | None:
        """Return the entries; what the log does not have is lost in a gap, or there are none."""
        first, stop = self._kept.stop, self._before.stop
        entries = np.zeros(stop - first, dtype=QUEUE_ENTRY)
        begin, end = self._made.entries_from, min(self._made.end, stop)
        if begin < end:
            entries[begin - first : end - first] = self._made.read(begin, end - begin)
        for low, high in ((first, min(begin, stop)), (max(begin, end), stop)):
            if low >= high:
                continue
            behind = int(entries["log_offset"][high - first]) if high < stop else None
            gap = _gap_before(quarantine, behind)
            if gap is None:
                return None
            topic, queue = self.queue.topic, self.queue.queue
            lost = LostMessages(topic=topic, queue=queue, first=low, last=high - 1)
            quarantine.add(replace(gap, lost=(*gap.lost, lost)))
            entries["log_offset"][low - first : high - first] = gap.log_offset
        return entries

    def write(self) -> None:
        """Write the entries to their places in the file; for a thread.

        A crash on the way leaves what the next start makes anew: the checkpoint has the checksum
        of the whole file. Raises StoreFull, WriteFailed or SyncFailed.
        """
        assert self._entries is not None
        self._pass("derived.before_remake")
        directory = self.path.rpartition("/")[0]
        self._disk.make_directory(directory)
        file = self._disk.open(self.path, create=True)
        try:
            file.write(self._position(self.number, self._kept.stop), [self._entries.tobytes()])
            self._pass("derived.after_remake")
            file.sync()
        finally:
            file.close()
        self._disk.sync_directory(directory)

    def take_place(self) -> bool:
        """Let the file be read again; False where more was written to it that must be seen first.

        That is where entries are not what they were, for messages that were lost since.
        """
        assert self._entries is not None
        self._kept.add(self._entries.tobytes())
        return self.queue.rewritten(self.number, self._before, self._kept)

    def _content(self, number: int, written: EntrySums) -> bytes:
        """Return what there is of the entries that were written to a file of the queue."""
        content = bytearray((written.stop - written.first) * QUEUE_ENTRY_BYTES)
        try:
            file = self._disk.open(self.queue.path(number))
        except FileNotFoundError:
            return b""
        try:
            found = file.read_into(self._position(number, written.first), memoryview(content))
        except StoreDamaged:
            return b""
        finally:
            file.close()
        return bytes(content[:found])

    def _position(self, number: int, queue_offset: int) -> int:
        return (queue_offset - number * self._file_entries) * QUEUE_ENTRY_BYTES

    def _pass(self, name: str) -> None:
        try:
            self._failpoints.hit(name)
        except OSError as error:
            raise write_refusal(error, f"cannot write {self.path}") from error


class _One:
    """Takes the entries of one queue, and no others."""

    def __init__(self, queue: ConsumeQueue) -> None:
        self.dispatched_offset = 0
        self._queue = queue

    def queue(self, topic: str, number: int) -> ConsumeQueue | None:
        return self._queue if (topic, number) == (self._queue.topic, self._queue.queue) else None

    find = queue

    def added(self, queue: ConsumeQueue, *, frame_end: int) -> None:
        """Note nothing: it is kept in memory."""


def _last_place(entries: bytes) -> int:
    return int(np.frombuffer(entries[-QUEUE_ENTRY_BYTES:], dtype=QUEUE_ENTRY)["log_offset"][0])


def _gap_before(quarantine: Quarantine, log_offset: int | None) -> QuarantinedRange | None:
    gaps = [
        one
        for one in quarantine.ranges
        if one.is_gap and (log_offset is None or one.log_offset < log_offset)
    ]
    return gaps[-1] if gaps else None
