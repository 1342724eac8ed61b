"""The kept messages of a queue up to an offset: one file, read by queue offset. Knows one file.

What does not have its checksum is never given: the reader gets an error that names it, and whoever
knows what to do about it says so by `pass_over`.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import starts_of
from apps.engine.codec.checksum import crc32
from apps.engine.derived.compacted import layout
from apps.engine.derived.compacted.layout import BLOCK, ROW, Rows
from apps.engine.errors import StoreDamaged
from apps.engine.files.backend import Disk
from apps.engine.log.gather import Take, fresh, gather

# Blocks of rows in memory, 35 KB each; a reader goes through one after the other.
_BLOCKS_KEPT = 4
_NOTHING = np.empty(0, dtype=np.int64)
_NO_ROWS = np.empty(0, dtype=ROW)


class PartDamaged(StoreDamaged):
    """Kept messages of a queue are not what was written.

    `offsets` int64[n] are the queue offsets of those that are known, `block` the number of a block
    of which nothing can be told.
    """

    def __init__(
        self, path: str, topic: str, queue: int, *, offsets: NDArray[np.int64], block: int = -1
    ) -> None:
        """Say where."""
        what = f"messages {offsets.tolist()}" if block < 0 else f"block {block}"
        super().__init__(f"{path}: {what} of queue {topic}/{queue} are not what was written")
        self.topic = topic
        self.queue = queue
        self.offsets = offsets
        self.block = block


@dataclass(frozen=True, slots=True, kw_only=True)
class PartShape:
    """What a file says of itself: the messages from `begin` up to, not with, `stop`.

    `oldest_tombstone_ms` is when the oldest of its tombstones was stored, -1 where it has none.
    """

    generation: int
    begin: int
    stop: int
    oldest_tombstone_ms: int


class Part:
    """A finished file. For one thread, but for `warm` of a cold read."""

    def __init__(self, disk: Disk, topic: str, queue: int, generation: int, *, store_id: str):
        """Open the file and read its index. Raises StoreDamaged where that is not what was written.

        Raises FileNotFoundError where there is no file.
        """
        self.topic = topic
        self.queue = queue
        self.path = layout.part_path(topic, queue, generation)
        self._disk = disk
        self._file = disk.open(self.path)
        self._blocks: OrderedDict[int, Rows] = OrderedDict()
        self.bad = _NOTHING
        self.bad_blocks: set[int] = set()
        self.written_ms = 0
        try:
            self.shape, self._index = self._read_index(generation, bytes.fromhex(store_id))
        except BaseException:
            self._file.close()
            raise
        self.size_bytes = self._file.size()
        self._starts = self._index["start"].astype(np.int64)
        self._firsts = self._index["queue_offset"].astype(np.int64)
        self._log_firsts = self._index["log_offset"].astype(np.int64)
        self._counts = self._index["count"].astype(np.int64)

    @property
    def begin(self) -> int:
        """Return the queue offset the queue began at when this was written."""
        return self.shape.begin

    @property
    def stop(self) -> int:
        """Return the first queue offset that is not covered."""
        return self.shape.stop

    @property
    def message_count(self) -> int:
        """Return how many messages it has."""
        return int(self._counts.sum())

    @property
    def block_count(self) -> int:
        """Return how many blocks it has."""
        return len(self._counts)

    @property
    def is_whole(self) -> bool:
        """Say whether no damage was found so far."""
        return not (len(self.bad) or self.bad_blocks)

    # --- reading -------------------------------------------------------------------------------

    def rows_from(self, queue_offset: int, rows_max: int, *, wait: bool) -> Rows:
        """Return the first rows from an offset on; none behind the last.

        Raises NotCached when `wait` is false and the disk would be waited for, PartDamaged.
        """
        number = max(int(np.searchsorted(self._firsts, queue_offset, side="right")) - 1, 0)
        found, count = [], 0
        while number < self.block_count and count < rows_max:
            rows = self.block(number, wait=wait)
            rows = rows[rows["queue_offset"] >= queue_offset][: rows_max - count]
            found.append(rows)
            count += len(rows)
            number += 1
        return _joined(found)

    def rows_between(self, start: int, stop: int, *, wait: bool) -> Rows:
        """Return the rows of a stretch of queue offsets. Raises as `rows_from`."""
        first = max(int(np.searchsorted(self._firsts, start, side="right")) - 1, 0)
        last = int(np.searchsorted(self._firsts, stop, side="left"))
        rows = _joined([self.block(number, wait=wait) for number in range(first, last)])
        return rows[(rows["queue_offset"] >= start) & (rows["queue_offset"] < stop)]

    def rows_at(self, queue_offsets: NDArray[np.int64], *, wait: bool) -> Rows:
        """Return the rows of those offsets, ascending, that are kept. Raises as `rows_from`."""
        numbers = np.searchsorted(self._firsts, queue_offsets, side="right") - 1
        found = []
        for number in np.unique(numbers[numbers >= 0]).tolist():
            rows = self.block(number, wait=wait)
            found.append(rows[np.isin(rows["queue_offset"], queue_offsets)])
        return _joined(found)

    def row_at_log(self, log_offset: int, *, wait: bool) -> Rows:
        """Return the row of the message that lay at a log offset, or none. Raises as above."""
        number = int(np.searchsorted(self._log_firsts, log_offset, side="right")) - 1
        if number < 0:
            return _NO_ROWS
        rows = self.block(number, wait=wait)
        found: Rows = rows[rows["log_offset"] == log_offset]
        return found

    def first_near_log(self, log_offset: int) -> int:
        """Return the first queue offset of the block where a place of the log would be."""
        number = int(np.searchsorted(self._log_firsts, log_offset, side="right")) - 1
        return int(self._firsts[number]) if self.block_count and number >= 0 else 0

    def block_below(self, queue_offset: int) -> int:
        """Return the last block that begins below an offset; -1 for none."""
        return int(np.searchsorted(self._firsts, queue_offset, side="left")) - 1

    def first_of(self, number: int) -> int:
        """Return the first queue offset of a block."""
        return int(self._firsts[number])

    def count_of(self, number: int) -> int:
        """Return how many messages were written into a block."""
        return int(self._counts[number])

    def block(self, number: int, *, wait: bool) -> Rows:
        """Return the rows of one block, none of one that is passed over. Raises as above."""
        rows = self._blocks.get(number)
        if rows is None:
            if number in self.bad_blocks:
                return _NO_ROWS
            rows = self._read_block(number, wait=wait)
            self._blocks[number] = rows
            if len(self._blocks) > _BLOCKS_KEPT:
                self._blocks.popitem(last=False)
        if not len(self.bad):
            return rows
        kept: Rows = rows[~np.isin(rows["queue_offset"], self.bad)]
        return kept

    def records(self, rows: Rows, *, wait: bool, take: Take = fresh) -> memoryview:
        """Return the records of rows, end to end, each with its checksum. Raises as above."""
        if not len(rows):
            return memoryview(b"")
        positions = np.concatenate(
            [self._positions(number, rows, wait=wait) for number in self._blocks_of(rows)]
        )
        sizes = rows["size_bytes"].astype(np.int32)
        payload = gather(self, positions, sizes, wait=wait, take=take)
        starts = starts_of(sizes)
        spans = zip(starts.tolist(), sizes.tolist(), rows["crc"].tolist(), strict=True)
        is_right = [crc32(payload[start : start + size]) == crc for start, size, crc in spans]
        if not all(is_right):
            offsets = rows["queue_offset"].astype(np.int64)[~np.array(is_right)]
            raise PartDamaged(self.path, self.topic, self.queue, offsets=offsets)
        return payload

    def pass_over(self, damage: PartDamaged) -> bool:
        """Read on without what is damaged; False where that was said before."""
        if damage.block >= 0:
            is_new = damage.block not in self.bad_blocks
            self.bad_blocks.add(damage.block)
            return is_new
        before = len(self.bad)
        self.bad = np.union1d(self.bad, damage.offsets)
        return len(self.bad) > before

    def read_into(self, offset: int, target: memoryview, *, wait: bool = True) -> None:
        """Fill `target`; where the file is too short, with zeros, which have no checksum."""
        found = self._file.read_into(offset, target, wait=wait)
        if found < len(target):
            target[found:] = bytes(len(target) - found)

    def warm(self, queue_offset: int, rows_max: int) -> None:
        """Bring so many messages from an offset on into the page cache; for a thread."""
        # A descriptor of its own: the file may be given up while a thread waits for the disk.
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            return
        try:
            number = max(int(np.searchsorted(self._firsts, queue_offset, side="right")) - 1, 0)
            while number < self.block_count and rows_max > -layout.BLOCK_ROWS_MAX:
                size = self._rows_bytes(number) + int(self._index["records_bytes"][number])
                file.read_into(int(self._starts[number]), memoryview(bytearray(size)))
                rows_max -= int(self._counts[number])
                number += 1
        finally:
            file.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # --- inside --------------------------------------------------------------------------------

    def _blocks_of(self, rows: Rows) -> list[int]:
        numbers = np.searchsorted(self._firsts, rows["queue_offset"].astype(np.int64), "right") - 1
        return [int(number) for number in np.unique(numbers)]

    def _positions(self, number: int, rows: Rows, *, wait: bool) -> NDArray[np.int64]:
        block = self._read_or_kept(number, wait=wait)
        at = int(self._starts[number]) + self._rows_bytes(number)
        positions = at + starts_of(block["size_bytes"].astype(np.int32))
        return positions[np.isin(block["queue_offset"], rows["queue_offset"])]

    def _read_or_kept(self, number: int, *, wait: bool) -> Rows:
        """Return a block's rows as they were written, also those that are passed over."""
        rows = self._blocks.get(number)
        return self._read_block(number, wait=wait) if rows is None else rows

    def _rows_bytes(self, number: int) -> int:
        return int(self._counts[number]) * ROW.itemsize

    def _read_block(self, number: int, *, wait: bool) -> Rows:
        data = bytearray(self._rows_bytes(number))
        self.read_into(int(self._starts[number]), memoryview(data), wait=wait)
        if crc32(data) != int(self._index["crc"][number]):
            raise PartDamaged(self.path, self.topic, self.queue, offsets=_NOTHING, block=number)
        return np.frombuffer(data, dtype=ROW)

    def _read_index(self, generation: int, store_id: bytes) -> tuple[PartShape, NDArray[np.void]]:
        header = self._read(0, layout.HEADER.size)
        if header != layout.HEADER.pack(layout.MAGIC, layout.VERSION, 0, store_id, generation):
            raise self._strange("its header is another's")
        size = self._file.size()
        if size < layout.HEADER.size + layout.TRAILER.size:
            raise self._strange("it is too short")
        trailer = self._read(size - layout.TRAILER.size, layout.TRAILER.size)
        (magic, version, _, own, begin, stop, oldest_ms, start, length, crc, own_crc) = (
            layout.TRAILER.unpack(trailer)
        )
        is_right = (
            magic == layout.END_MAGIC
            and version == layout.VERSION
            and own == generation
            and own_crc == crc32(trailer[:-4])
            and start + length + layout.TRAILER.size == size
        )
        if not is_right:
            raise self._strange("its trailer is not what was written")
        index = self._read(start, length)
        if crc32(index) != crc:
            raise self._strange("its index is not what was written")
        queue, name_bytes, count = layout.PLACE.unpack_from(index)
        at = layout.PLACE.size + name_bytes
        name = index[layout.PLACE.size : at].decode()
        if (name, queue) != (self.topic, self.queue):
            raise self._strange(f"it is of queue {name}/{queue}")
        shape = PartShape(
            generation=generation, begin=begin, stop=stop, oldest_tombstone_ms=oldest_ms
        )
        return shape, np.frombuffer(index, dtype=BLOCK, count=count, offset=at)

    def _read(self, start: int, size_bytes: int) -> bytes:
        data = bytearray(size_bytes)
        self.read_into(start, memoryview(data))
        return bytes(data)

    def _strange(self, what: str) -> StoreDamaged:
        return StoreDamaged(f"{self.path} is damaged: {what}")


def _joined(found: list[Rows]) -> Rows:
    found = [rows for rows in found if len(rows)]
    if len(found) == 1:
        return found[0]
    if not found:
        return _NO_ROWS
    rows = np.empty(sum(map(len, found)), dtype=ROW)
    np.concatenate(found, out=rows)
    return rows
