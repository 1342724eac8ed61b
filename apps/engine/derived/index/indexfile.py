"""One index file: its slots while it grows, its entries, and what of it is on the disk.

Knows hashes, entries and bytes; not where they come from, nor which files there are. Whatever a
file holds can be told from its entries: the slots only say where the chains begin.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.checksum import crc32
from apps.engine.derived.consumequeue import ColdRead
from apps.engine.derived.filecache import FileCache
from apps.engine.derived.index import layout
from apps.engine.errors import StoreFull
from apps.engine.files.backend import Disk, NotCached

DIRECTORY = "index"
# 80 KiB a write, as of a consume queue.
FLUSH_ENTRIES = 4096
# What the checkpoint says of a file, in this order.
_FIELDS = (
    "name", "slot_count", "capacity", "count", "used_slots", "begin_ms", "end_ms", "begin_offset",
    "end_offset", "end_repeat", "dispatch_from", "crc",
)  # fmt: skip


class IndexDamaged(Exception):
    """A file does not hold what its checkpoint says, or its chains are none."""


class IndexFile:
    """Entries 1 to `count` - 1 of one file; `count` is RocketMQ's, which counts the unused 0.

    `slots` int32[slot_count] is there while the file grows or has changes that no checkpoint has.
    `end_repeat` is how many entries the last record has so far, also in the file before; dispatch
    from `dispatch_from` fills this file and those behind it.
    """

    __slots__ = (
        "_files", "_tail", "begin_ms", "begin_offset", "capacity", "count", "crc", "dispatch_from",
        "end_ms", "end_offset", "end_repeat", "flushed", "is_gone", "name", "slot_count", "slots",
        "stored", "used_slots",
    )  # fmt: skip

    name: str
    slot_count: int
    capacity: int
    begin_ms: int
    begin_offset: int
    dispatch_from: int

    def __init__(self, files: FileCache) -> None:
        """Make a file without content; use `new` or `kept`."""
        self._files = files
        self._tail = bytearray()
        self.slots: NDArray[np.int32] | None = None
        self.count = self.flushed = self.stored = 1
        self.used_slots = self.end_repeat = self.crc = 0
        self.end_ms, self.end_offset = 0, -1
        self.is_gone = False

    @classmethod
    def new(
        cls,
        files: FileCache,
        *,
        name: str,
        slot_count: int,
        capacity: int,
        begin_ms: int,
        begin_offset: int,
        dispatch_from: int,
    ) -> Self:
        """Begin a file with the time and place of the first record that it will hold."""
        file = cls(files)
        file.name, file.slot_count, file.capacity = name, slot_count, capacity
        file.begin_ms, file.begin_offset = begin_ms, begin_offset
        file.dispatch_from = dispatch_from
        file.slots = np.zeros(slot_count, dtype=np.int32)
        return file

    @classmethod
    def kept(cls, files: FileCache, row: list[Any]) -> Self:
        """Take a file up as a checkpoint's row says; `check` or `take_up` proves it."""
        file = cls(files)
        for name, value in zip(_FIELDS, row, strict=True):
            setattr(file, name, value)
        file.flushed = file.stored = file.count
        return file

    def row(self) -> list[Any]:
        """Return what a checkpoint says of the file."""
        return [getattr(self, name) for name in _FIELDS]

    @property
    def path(self) -> str:
        """Return where the file is."""
        return f"{DIRECTORY}/{self.name}"

    @property
    def room(self) -> int:
        """Return how many more entries fit."""
        return self.capacity - self.count

    @property
    def is_stored(self) -> bool:
        """Say whether all of it was written, so that a checkpoint may name it as it is."""
        return self.stored == self.count

    # --- growing -------------------------------------------------------------------------------

    def append(
        self,
        hashes: NDArray[np.int64],
        log_offsets: NDArray[np.int64],
        times_ms: NDArray[np.int64],
    ) -> None:
        """Add entries, which must fit, each in front of its chain: one array step for all."""
        assert self.slots is not None
        assert len(hashes) <= self.room
        numbers = np.arange(self.count, self.count + len(hashes), dtype=np.int32)
        slots = hashes % self.slot_count
        order = np.argsort(slots, kind="stable")
        sorted_slots = slots[order]
        before = self.slots[sorted_slots]
        is_first = np.ones(len(order), dtype=bool)
        is_first[1:] = sorted_slots[1:] != sorted_slots[:-1]
        self.used_slots += int(np.count_nonzero(is_first & (before == 0)))
        later = np.flatnonzero(~is_first)
        before[later] = numbers[order[later - 1]]
        entries = np.empty(len(hashes), dtype=layout.INDEX_ENTRY)
        entries["hash"] = hashes
        entries["log_offset"] = log_offsets
        entries["seconds"] = layout.seconds_since(self.begin_ms, times_ms)
        entries["previous"][order] = before
        # Of numbers for the same slot the last one stays.
        self.slots[slots] = numbers
        data = entries.tobytes()
        self._tail += data
        self.crc = crc32(data, self.crc)
        self.count += len(hashes)
        self.end_ms = int(times_ms[-1])
        last = int(log_offsets[-1])
        repeat = int(np.count_nonzero(log_offsets == last))
        self.end_repeat = repeat + (self.end_repeat if last == self.end_offset else 0)
        self.end_offset = last

    def flush(self, *, least: int = 1) -> None:
        """Write entries in memory to the file where there are at least so many.

        On a full disk they stay in memory. Raises WriteFailed.
        """
        if self.count - self.flushed < least:
            return
        try:
            file = self._files.get(self.path, create=True)
            file.write(layout.entry_position(self.slot_count, self.flushed), [self._tail])
        except StoreFull:
            # Sends are refused by the log's own check of the disk; the next flush tries again.
            return
        self.flushed = self.count
        self._tail = bytearray()

    def changes(self) -> list[tuple[int, bytes]]:
        """Return what is to be written for a checkpoint, by position: slots, then the header."""
        assert self.slots is not None
        found = []
        changed = self.entries(self.stored, self.count, wait=True)["hash"].astype(np.int64)
        pages = np.unique(changed % self.slot_count // layout.SLOTS_OF_PAGE)
        if not self.stored - 1:
            # A new file gets all of its slots, so that none of them is a hole.
            pages = np.arange(-(-self.slot_count // layout.SLOTS_OF_PAGE))
        bounds = np.flatnonzero(np.diff(pages) != 1) + 1
        for run in np.split(pages, bounds) if len(pages) else []:
            first = int(run[0]) * layout.SLOTS_OF_PAGE
            stop = (int(run[-1]) + 1) * layout.SLOTS_OF_PAGE
            part = self.slots[first:stop].astype(layout.SLOT)
            found.append((layout.slot_position(first), part.tobytes()))
        return [*found, (0, self.header())]

    def header(self) -> bytes:
        """Return the header of the file as it is now."""
        header = np.zeros(1, dtype=layout.INDEX_HEADER)
        header[0] = (
            self.begin_ms,
            self.end_ms,
            self.begin_offset,
            self.end_offset,
            self.used_slots,
            self.count,
        )
        return header.tobytes()

    # --- reading -------------------------------------------------------------------------------

    def newest(self, slot: int, *, wait: bool) -> int:
        """Return the newest entry of a slot's chain, 0 for none. Raises ColdRead, IndexDamaged."""
        if self.slots is not None:
            return int(self.slots[slot])
        data = self._read(layout.slot_position(slot), layout.SLOT_BYTES, wait=wait)
        return int.from_bytes(data, "big", signed=True)

    def entries(self, first: int, stop: int, *, wait: bool) -> NDArray[np.void]:
        """Return entries `first` to `stop` - 1: INDEX_ENTRY[n]. Raises ColdRead, IndexDamaged."""
        data = bytearray()
        if first < self.flushed:
            size_bytes = (min(stop, self.flushed) - first) * layout.ENTRY_BYTES
            position = layout.entry_position(self.slot_count, first)
            data += self._read(position, size_bytes, wait=wait)
        if stop > self.flushed:
            skip = max(first - self.flushed, 0) * layout.ENTRY_BYTES
            data += self._tail[skip : (stop - self.flushed) * layout.ENTRY_BYTES]
        return np.frombuffer(data, dtype=layout.INDEX_ENTRY)

    def _read(self, position: int, size_bytes: int, *, wait: bool) -> bytearray:
        target = bytearray(size_bytes)
        try:
            found = self._files.get(self.path).read_into(position, memoryview(target), wait=wait)
        except FileNotFoundError as error:
            raise IndexDamaged(f"{self.path} is missing") from error
        except NotCached as error:
            disk, path = self._files.disk, self.path
            raise ColdRead(lambda: _warm(disk, path, position, size_bytes)) from error
        if found < size_bytes:
            raise IndexDamaged(f"{self.path} is shorter than its checkpoint")
        return target

    # --- proving -------------------------------------------------------------------------------

    def check(self) -> None:
        """Prove that a full file has the header and the length of its checkpoint.

        Raises IndexDamaged.
        """
        if self._read(0, layout.HEADER_BYTES, wait=True) != self.header():
            raise IndexDamaged(f"{self.path} has another header than its checkpoint")
        self.entries(self.count - 1, self.count, wait=True)

    def take_up(self) -> None:
        """Read all entries, prove them and make the slots of them, so that the file may grow.

        Raises IndexDamaged. What the file has of slots, of a header, or behind the last entry of
        its checkpoint, is not looked at: a crash may have left anything there.
        """
        entries = self.entries(1, self.count, wait=True)
        if crc32(entries.tobytes()) != self.crc:
            raise IndexDamaged(f"{self.path} does not have the checksum of its checkpoint")
        slots = entries["hash"].astype(np.int64) % self.slot_count
        self.slots = np.zeros(self.slot_count, dtype=np.int32)
        self.slots[slots] = np.arange(1, self.count, dtype=np.int32)

    def verify(self) -> None:
        """Prove every byte of a file that its checkpoint answers for. Raises IndexDamaged."""
        kept = self.slots
        self.take_up()
        made, self.slots = self.slots, kept
        assert made is not None
        if self.room:
            return
        self.check()
        written = self._read(
            layout.slot_position(0), self.slot_count * layout.SLOT_BYTES, wait=True
        )
        if not np.array_equal(np.frombuffer(written, dtype=layout.SLOT), made):
            raise IndexDamaged(f"{self.path} has slots that its entries do not make")


def _warm(disk: Disk, path: str, position: int, size_bytes: int) -> None:
    # A descriptor of its own: the cached one may be closed while a thread waits for the disk.
    try:
        file = disk.open(path)
    except FileNotFoundError:
        # It was dropped meanwhile; the read that is tried again finds out.
        return
    try:
        file.read_into(position, memoryview(bytearray(size_bytes)))
    finally:
        file.close()
