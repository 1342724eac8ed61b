"""One consume queue: for each message of a queue, where it lies in the log.

Knows entries and files of entries; not what a topic may do, nor who reads. Entries wait in memory
and go to the files in large writes: they are derived, so nothing is lost when they never get there.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.checksum import crc32
from apps.engine.codec.layout import QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from apps.engine.derived.compacted.part import Part
from apps.engine.derived.filecache import FileCache
from apps.engine.derived.names import queue_directory
from apps.engine.errors import StoreDamaged
from apps.engine.files.backend import NotCached

# 80 KiB a write: large enough that the call is cheap, small enough to keep per busy queue.
FLUSH_ENTRIES = 4096
_NOTHING = np.empty(0, dtype=np.int64)


class ColdRead(NotCached):
    """A read would have to wait for the disk; `warm` does the waiting and belongs in a thread."""

    def __init__(self, warm: Callable[[], object]) -> None:
        """Remember what to call in a thread before trying again."""
        super().__init__("not in the page cache")
        self.warm = warm


class ConsumeQueue:
    """Entries `entries_from` to `end` of one queue; readers see them up to `visible`.

    `min_offset` is the first offset that may be read. It is lower than that of the first entry
    where `kept` has the messages below `covered`: `sparse` reads both.
    """

    __slots__ = (
        "_file_entries",
        "_files",
        "_sums",
        "_tail",
        "end",
        "entries_from",
        "flushed",
        "kept",
        "lost",
        "min_offset",
        "queue",
        "topic",
        "visible",
    )

    def __init__(self, topic: str, queue: int, *, files: FileCache, file_entries: int) -> None:
        """Make an empty queue; no file is touched before the first flush."""
        self.topic = topic
        self.queue = queue
        self.min_offset = 0
        self.entries_from = 0
        self.kept: Part | None = None
        self.visible = 0
        self.end = 0
        self.flushed = 0
        # Offsets of messages that cannot be read any more, int64[n], ascending: `broker.damage`.
        self.lost: NDArray[np.int64] = _NOTHING
        self._files = files
        self._file_entries = file_entries
        # By file number: the first entry in it that was written, and the CRC-32 from there on.
        self._sums: dict[int, tuple[int, int]] = {}
        # Bytes and no array: adding one entry to them costs a tenth.
        self._tail = bytearray()

    def resume(
        self, *, min_offset: int, end: int, sums: Iterable[tuple[int, int, int]] = ()
    ) -> None:
        """Take up what the files held at a checkpoint; later entries in them count as unwritten.

        `sums` is what `sums` of then returned.
        """
        self._sums = {number: (first, crc) for number, first, crc in sums}
        self.min_offset = self.entries_from = min_offset
        self.visible = self.end = self.flushed = end
        self._tail.clear()

    @property
    def covered(self) -> int:
        """Return the offset up to which messages are read from `kept`; 0 without it."""
        return 0 if self.kept is None else self.kept.stop

    def begin_at(self, queue_offset: int) -> None:
        """Begin no lower than an offset, for readers too."""
        self.min_offset = max(self.min_offset, queue_offset)
        self.entries_from = max(self.entries_from, queue_offset)

    def append(self, entries: bytes) -> None:
        """Add entries at the end: the bytes of QUEUE_ENTRY[n]."""
        self._tail += entries
        self.end += len(entries) // QUEUE_ENTRY_BYTES

    def lost_between(self, start: int, stop: int) -> int:
        """Return how many messages from `start` up to, not with, `stop` cannot be read any more."""
        if not len(self.lost):
            return 0
        first, last = np.searchsorted(self.lost, (start, stop)).tolist()
        return int(last - first)

    @property
    def unflushed(self) -> int:
        """Return how many entries are in memory only."""
        return self.end - self.flushed

    def read(self, start: int, count: int, *, wait: bool = True) -> NDArray[np.void]:
        """Return up to `count` entries from queue offset `start`, which must be in the queue.

        Raises ColdRead when `wait` is false and the disk would have to be waited for, and
        StoreDamaged when a file is shorter than the checkpoint said.
        """
        stop = min(start + count, self.end)
        if start >= self.flushed:
            return np.frombuffer(self._in_memory(start, stop), dtype=QUEUE_ENTRY)
        parts = []
        while start < min(stop, self.flushed):
            part_stop = min(stop, self.flushed, self._next_file(start))
            parts.append(self._read_file(start, part_stop, wait=wait))
            start = part_stop
        if start < stop:
            parts.append(np.frombuffer(self._in_memory(start, stop), dtype=QUEUE_ENTRY))
        if len(parts) == 1:
            return parts[0]
        # Joining arrays would give them the byte order of the machine.
        found = np.empty(sum(map(len, parts)), dtype=QUEUE_ENTRY)
        np.concatenate(parts, out=found)
        return found

    def flush(self) -> list[str]:
        """Write what is in memory to the files and return the paths written to.

        Raises StoreFull or WriteFailed; the entries then stay in memory.
        """
        paths = []
        start = self.flushed
        while start < self.end:
            stop = min(self.end, self._next_file(start))
            path, position = self._place(start)
            # Where a queue begins in the middle of a file, nothing was written before it either.
            if not position or start <= self.entries_from:
                self._files.disk.make_directory(queue_directory(self.topic, self.queue))
            file = self._files.get(path, create=True)
            data = self._in_memory(start, stop)
            file.write(position, [data])
            number = start // self._file_entries
            first, crc = self._sums.get(number, (start, 0))
            self._sums[number] = (first, crc32(data, crc))
            paths.append(path)
            start = stop
        self.flushed = self.end
        self._tail.clear()
        return paths

    def first_at(self, log_offset: int, *, wait: bool) -> int:
        """Return the first queue offset whose message does not lie below a log offset.

        The end of the queue when all do. Raises ColdRead when `wait` is false and the disk would
        have to be waited for: call again when it is warm.
        """
        low, high = self.entries_from, self.end
        while low < high:
            # The front goes first, so a queue of which nothing goes is told by one look.
            middle = low if low == self.entries_from else (low + high) // 2
            if int(self.read(middle, 1, wait=wait)["log_offset"][0]) < log_offset:
                low = middle + 1
            else:
                high = middle
        return max(low, self.entries_from)

    def paths_below(self, queue_offset: int) -> list[str]:
        """Return the files that have only entries below `queue_offset`, and forget them if open.

        The caller removes them, once a checkpoint says that the queue begins no lower.
        """
        first = min(queue_offset, self.flushed) // self._file_entries
        stop_bytes = first * self._file_entries * QUEUE_ENTRY_BYTES
        directory = queue_directory(self.topic, self.queue)
        names = self._files.disk.names(directory) if stop_bytes else []
        paths = [f"{directory}/{name}" for name in names if int(name) < stop_bytes]
        for path in paths:
            self._files.forget(path)
        return paths

    @property
    def sums(self) -> list[tuple[int, int, int]]:
        """Return number, first entry and CRC-32 of each file that has entries to be read."""
        if not self._sums:
            return []
        kept = self.entries_from // self._file_entries
        return [(number, *self._sums[number]) for number in sorted(self._sums) if number >= kept]

    def is_whole(self) -> bool:
        """Say whether the files hold what was written to them: all of it is read, for a start."""
        if self.flushed <= self.entries_from:
            return True
        at = self.entries_from
        for number, first, crc in self.sums:
            stop = min(self.flushed, (number + 1) * self._file_entries)
            if first > at or self._crc(first, stop) != crc:
                return False
            at = stop
        return at >= self.flushed

    def _crc(self, start: int, stop: int) -> int | None:
        """Return the CRC-32 of entries of one file; None where it does not have them."""
        path, position = self._place(start)
        data = bytearray((stop - start) * QUEUE_ENTRY_BYTES)
        try:
            found = self._files.get(path).read_into(position, memoryview(data))
        except FileNotFoundError:
            return None
        return crc32(data) if found == len(data) else None

    def _in_memory(self, start: int, stop: int) -> bytearray:
        """Return a copy of entries of the tail, which could not grow under a view."""
        first = self.flushed
        return self._tail[(start - first) * QUEUE_ENTRY_BYTES : (stop - first) * QUEUE_ENTRY_BYTES]

    def _next_file(self, start: int) -> int:
        return (start // self._file_entries + 1) * self._file_entries

    def _place(self, start: int) -> tuple[str, int]:
        number = start // self._file_entries
        name = f"{number * self._file_entries * QUEUE_ENTRY_BYTES:020d}"
        position = (start - number * self._file_entries) * QUEUE_ENTRY_BYTES
        return f"{queue_directory(self.topic, self.queue)}/{name}", position

    def _read_file(self, start: int, stop: int, *, wait: bool) -> NDArray[np.void]:
        path, position = self._place(start)
        target = bytearray((stop - start) * QUEUE_ENTRY_BYTES)
        try:
            found = self._files.get(path).read_into(position, memoryview(target), wait=wait)
        except FileNotFoundError as error:
            raise StoreDamaged(f"consume queue file {path} is missing") from error
        except NotCached as error:
            raise ColdRead(lambda: self._warm(path, position, len(target))) from error
        if found < len(target):
            raise StoreDamaged(f"consume queue file {path} is shorter than its checkpoint")
        return np.frombuffer(target, dtype=QUEUE_ENTRY)

    def _warm(self, path: str, position: int, size_bytes: int) -> None:
        # A descriptor of its own: the cached one may be closed while a thread waits for the disk.
        try:
            file = self._files.disk.open(path)
        except FileNotFoundError:
            # Retention has removed it; whoever reads again finds that the queue begins later.
            return
        try:
            file.read_into(position, memoryview(bytearray(size_bytes)))
        finally:
            file.close()
