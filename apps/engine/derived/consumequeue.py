"""One consume queue: for each message of a queue, where it lies in the log.

Knows entries and files of entries; not what a topic may do, nor who reads. Entries wait in memory
and go to the files in large writes: they are derived, so nothing is lost when they never get there.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.layout import QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from apps.engine.derived.compacted.part import Part
from apps.engine.derived.entrysums import EntrySums
from apps.engine.derived.filecache import FileCache
from apps.engine.derived.names import queue_directory
from apps.engine.errors import QueueDamaged, StoreDamaged
from apps.engine.files.backend import File, NotCached

# 80 KiB a write: large enough that the call is cheap, small enough to keep per busy queue.
FLUSH_ENTRIES = 4096
_NOTHING = np.empty(0, dtype=np.int64)
# The first field of an entry.
_LOG_OFFSET_BYTES = QUEUE_ENTRY["log_offset"].itemsize


class ColdRead(NotCached):
    """A read would have to wait for the disk; `warm` does the waiting and belongs in a thread."""

    def __init__(self, warm: Callable[[], object]) -> None:
        """Remember what to call in a thread before trying again."""
        super().__init__("not in the page cache")
        self.warm = warm


def _heard_by_nobody(_queue: "ConsumeQueue", _number: int, _reason: str) -> None:
    """Tell nobody."""


class ConsumeQueue:
    """Entries `entries_from` to `end` of one queue; readers see them up to `visible`.

    `min_offset` is the first offset that may be read. It is lower than that of the first entry
    where `kept` has the messages below `covered`: `sparse` reads both.
    """

    __slots__ = (
        "_condemn",
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

    def __init__(
        self,
        topic: str,
        queue: int,
        *,
        files: FileCache,
        file_entries: int,
        condemn: Callable[["ConsumeQueue", int, str], None] = _heard_by_nobody,
    ) -> None:
        """Make an empty queue; no file is touched before the first flush.

        `condemn` is told each time a file is met that is not what was written: which, and why.
        """
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
        self._condemn = condemn
        # By file number: what was written to it.
        self._sums: dict[int, EntrySums] = {}
        # Bytes and no array: adding one entry to them costs a tenth.
        self._tail = bytearray()

    def resume(
        self,
        *,
        min_offset: int,
        end: int,
        sums: Iterable[tuple[int, int, int]] = (),
        tail: bytes = b"",
    ) -> None:
        """Take up what the files held at a checkpoint; later entries in them count as unwritten.

        `sums` is what `sums` of then returned, `tail` what was in memory behind the files.
        """
        self._sums = {
            number: EntrySums.promised(first, min(end, self._first_of(number + 1)), crc)
            for number, first, crc in sums
        }
        self.min_offset = self.entries_from = min_offset
        self.flushed = end
        self._tail = bytearray(tail)
        self.visible = self.end = end + len(tail) // QUEUE_ENTRY_BYTES

    @property
    def covered(self) -> int:
        """Return the offset up to which messages are read from `kept`; 0 without it."""
        return 0 if self.kept is None else self.kept.stop

    @property
    def held(self) -> int:
        """Return how many messages readers see."""
        return max(0, self.visible - self.min_offset)

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
    def tail(self) -> bytes:
        """Return the entries that are in memory only."""
        return bytes(self._tail)

    def forget_files(self) -> bool:
        """Close what is open of the queue's files; say whether it may have any."""
        for number in self._sums:
            self._files.forget(self.path(number))
        return self.flushed > 0

    @property
    def unflushed(self) -> int:
        """Return how many entries are in memory only."""
        return self.end - self.flushed

    def read(self, start: int, count: int, *, wait: bool = True) -> NDArray[np.void]:
        """Return up to `count` entries from queue offset `start`, which must be in the queue.

        Raises ColdRead when `wait` is false and the disk would have to be waited for, and
        QueueDamaged where a file is not what was written to it.
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

    def log_offset(self, queue_offset: int, *, wait: bool) -> int:
        """Return where a message of the queue lies in the log. Raises as `read` does."""
        if queue_offset >= self.flushed:
            # Of one entry an array would be most of the work.
            at = (queue_offset - self.flushed) * QUEUE_ENTRY_BYTES
            return int.from_bytes(self._tail[at : at + _LOG_OFFSET_BYTES], "big")
        return int(self.read(queue_offset, 1, wait=wait)["log_offset"][0])

    def flush(self) -> list[str]:
        """Write what is in memory to the files and return the paths written to.

        Raises StoreFull or WriteFailed; the entries then stay in memory.
        """
        paths = []
        start = self.flushed
        while start < self.end:
            stop = min(self.end, self._next_file(start))
            path, position = self._place(start)
            data = self._in_memory(start, stop)
            self._file_to_write(path).write(position, [data])
            self._sums.setdefault(start // self._file_entries, EntrySums(start)).add(data)
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
        return [
            (number, sums.first, sums.crc)
            for number, sums in sorted(self._sums.items())
            if number >= kept
        ]

    def is_whole(self) -> bool:
        """Say whether the files hold what was written to them: all of it is read, for a start."""
        if self.flushed <= self.entries_from:
            return True
        at = self.entries_from
        for number, first, crc in self.sums:
            stop = min(self.flushed, self._first_of(number + 1))
            data = self._content(first, stop)
            if first > at or data is None:
                return False
            found = EntrySums(first)
            found.add(data)
            if found.crc != crc:
                return False
            self._sums[number] = found
            at = stop
        return at >= self.flushed

    # --- files that are made again -------------------------------------------------------------

    def number_of(self, path: str) -> int | None:
        """Return the number of a file of this queue that may be read; None for any other path."""
        for number in self._sums:
            if self.path(number) == path and self._first_of(number + 1) > self.entries_from:
                return number
        return None

    def path(self, number: int) -> str:
        """Return where a file lies."""
        return self._place(self._first_of(number))[0]

    def written(self, number: int) -> EntrySums | None:
        """Return what was written to a file; it grows with the file. None for nothing."""
        return self._sums.get(number)

    def rewritten(self, number: int, before: EntrySums, made: EntrySums) -> bool:
        """Take over what a file holds now in the place of what it held `before`.

        False where it is something else, and more was written behind it meanwhile.
        """
        self._files.forget(self.path(number))
        if (made.first, made.stop, made.crc) == (before.first, before.stop, before.crc):
            return True
        if self._sums[number].stop != made.stop:
            return False
        self._sums[number] = made
        return True

    def forget_file(self, number: int) -> None:
        """Let go of an open file, which may have lost its name: what is written next has one."""
        self._files.forget(self.path(number))

    def _content(self, start: int, stop: int) -> bytearray | None:
        """Return entries of one file as they are there; None where it does not have them."""
        path, position = self._place(start)
        data = bytearray((stop - start) * QUEUE_ENTRY_BYTES)
        try:
            found = self._files.get(path).read_into(position, memoryview(data))
        except FileNotFoundError:
            return None
        return data if found == len(data) else None

    def _file_to_write(self, path: str) -> File:
        try:
            return self._files.get(path, create=True)
        except FileNotFoundError:
            self._files.disk.make_directory(queue_directory(self.topic, self.queue))
            return self._files.get(path, create=True)

    def _in_memory(self, start: int, stop: int) -> bytearray:
        """Return a copy of entries of the tail, which could not grow under a view."""
        first = self.flushed
        return self._tail[(start - first) * QUEUE_ENTRY_BYTES : (stop - first) * QUEUE_ENTRY_BYTES]

    def _first_of(self, number: int) -> int:
        return number * self._file_entries

    def _next_file(self, start: int) -> int:
        return self._first_of(start // self._file_entries + 1)

    def _place(self, start: int) -> tuple[str, int]:
        number = start // self._file_entries
        name = f"{self._first_of(number) * QUEUE_ENTRY_BYTES:020d}"
        position = (start - self._first_of(number)) * QUEUE_ENTRY_BYTES
        return f"{queue_directory(self.topic, self.queue)}/{name}", position

    def _read_file(self, start: int, stop: int, *, wait: bool) -> NDArray[np.void]:
        number = start // self._file_entries
        sums = self._sums.get(number)
        low, high = (start, stop) if sums is None else sums.around(start, stop)
        path, position = self._place(low)
        target = bytearray((high - low) * QUEUE_ENTRY_BYTES)
        try:
            found = self._files.get(path).read_into(position, memoryview(target), wait=wait)
        except FileNotFoundError as error:
            raise self._damaged(number, "it is missing") from error
        except StoreDamaged as error:
            raise self._damaged(number, str(error)) from error
        except NotCached as error:
            raise ColdRead(lambda: self._warm(path, position, len(target))) from error
        if found < len(target):
            raise self._damaged(number, "it is shorter than what was written")
        if sums is not None and not sums.proves(target, low):
            raise self._damaged(number, f"entries {low} to {high - 1} are not what was written")
        return np.frombuffer(target, dtype=QUEUE_ENTRY)[start - low : stop - low]

    def _damaged(self, number: int, reason: str) -> QueueDamaged:
        self._condemn(self, number, reason)
        return QueueDamaged(f"consume queue file {self.path(number)} is damaged: {reason}")

    def _warm(self, path: str, position: int, size_bytes: int) -> None:
        # A descriptor of its own: the cached one may be closed while a thread waits for the disk.
        try:
            file = self._files.disk.open(path)
        except FileNotFoundError:
            # Retention has removed it; whoever reads again finds that the queue begins later.
            return
        try:
            with suppress(StoreDamaged):  # Whoever reads again meets it, and says so.
                file.read_into(position, memoryview(bytearray(size_bytes)))
        finally:
            file.close()
