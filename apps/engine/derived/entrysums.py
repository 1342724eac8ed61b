"""Checksums of one file of entries, so that any part of it that is read can be proven.

Knows entries as bytes. The checksum runs through the file and is remembered at marks: one that goes
on from a mark over what was read must arrive at the checksum of the next.
"""

from array import array
from typing import Self

from apps.engine.codec.checksum import Buffer, crc32
from apps.engine.codec.layout import QUEUE_ENTRY_BYTES

# 10 KiB are read and proven in 3 us, and 300,000 entries need 2 KiB of marks.
MARK_ENTRIES = 512


class EntrySums:
    """What was written to a file: the entries `first` up to, not with, `stop`, with `crc`."""

    __slots__ = ("_marks", "crc", "first", "stop")

    def __init__(self, first: int) -> None:
        """Begin with no entries, at a queue offset."""
        self.first = self.stop = first
        self.crc = 0
        # The checksum before each entry whose queue offset is a multiple; None where not known.
        self._marks: array[int] | None = array("I")

    @classmethod
    def promised(cls, first: int, stop: int, crc: int) -> Self:
        """Return what a checkpoint says of a file: nothing is proven before all of it was read."""
        sums = cls(first)
        sums.stop, sums.crc, sums._marks = stop, crc, None
        return sums

    def add(self, data: Buffer) -> None:
        """Take in entries at the end."""
        view = memoryview(data)
        while view:
            mark = _next_mark(self.stop)
            part = view[: (mark - self.stop) * QUEUE_ENTRY_BYTES]
            self.crc = crc32(part, self.crc)
            self.stop += len(part) // QUEUE_ENTRY_BYTES
            if self.stop == mark and self._marks is not None:
                self._marks.append(self.crc)
            view = view[len(part) :]

    def cut(self, stop: int) -> "EntrySums":
        """Return what was written below `stop`: a mark, an end, or anywhere behind `first`.

        Without an earlier mark it begins there.
        """
        if stop != self.stop and stop % MARK_ENTRIES:
            return EntrySums(stop)
        cut = EntrySums(self.first)
        if self.first < stop:
            assert self._marks is not None
            cut.stop, cut.crc = stop, self._sum(stop)
            cut._marks = self._marks[: stop // MARK_ENTRIES - self.first // MARK_ENTRIES]
        return cut

    def around(self, start: int, stop: int) -> tuple[int, int]:
        """Return the shortest part that has these entries and can be proven; themselves for none.

        `start` up to, not with, `stop` must be in the file.
        """
        if self._marks is None or start < self.first:
            return start, stop
        mark = start - start % MARK_ENTRIES
        return max(self.first, mark), min(self.stop, _next_mark(stop - 1))

    def proves(self, data: Buffer, start: int) -> bool:
        """Say whether what `around` asked for is what was written; where it could not, it is."""
        if self._marks is None or start < self.first:
            return True
        stop = start + len(data) // QUEUE_ENTRY_BYTES
        return crc32(data, self._sum(start)) == self._sum(stop)

    def proven(self, data: Buffer) -> int:
        """Return up to which entry the content of a file, from `first` on, is what was written."""
        view, at = memoryview(data), self.first
        while at < self.stop:
            stop = min(self.stop, _next_mark(at))
            part, view = _parted(view, (stop - at) * QUEUE_ENTRY_BYTES)
            if len(part) < (stop - at) * QUEUE_ENTRY_BYTES or not self.proves(part, at):
                break
            at = stop
        return at

    def _sum(self, at: int) -> int:
        """Return the checksum before an entry: the first, one with a mark, or the end."""
        if at == self.first:
            return 0
        if at == self.stop:
            return self.crc
        assert self._marks is not None
        return self._marks[at // MARK_ENTRIES - self.first // MARK_ENTRIES - 1]


def _next_mark(at: int) -> int:
    return (at // MARK_ENTRIES + 1) * MARK_ENTRIES


def _parted(view: memoryview, size_bytes: int) -> tuple[memoryview, memoryview]:
    return view[:size_bytes], view[size_bytes:]
