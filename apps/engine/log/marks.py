"""Running checksums of what was appended lately, so that many records are proven by one of them.

Knows places of the log, records and CRC-32. A checksum that goes on from one mark over the bytes
behind it must arrive at the next mark's: one call for as many records as were read together, where
one call for each takes longer than reading them. What has no marks is proven record by record.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import starts_of
from apps.engine.codec.bodies import has_bodies
from apps.engine.codec.checksum import crc32
from apps.engine.log.gather import ranges_of

# A mark stands before every so many records of a large frame. It divides what is usually read at
# once, 50 to 1,000 messages, of which a hand-out then begins and ends at marks.
MARK_RECORDS = 25
# 12 MiB at the most; the oldest are forgotten.
_MARKS_MAX = 1 << 20
_NOTHING = slice(0, 0)


class Marks:
    """Marks in order of the log. Adding belongs to one thread, proving may happen in others."""

    def __init__(self) -> None:
        """Know nothing."""
        # Replaced whole where marks are forgotten: who reads meanwhile keeps what he has.
        self._marks: tuple[array[int], array[int]] = (array("q"), array("I"))

    def add(self, places: Sequence[int], sums: Sequence[int]) -> None:
        """Take the marks of one frame: log offsets, ascending, and the sum of all before each."""
        known_places, known_sums = self._marks
        if len(known_places) >= _MARKS_MAX:
            half = len(known_places) // 2
            known_places, known_sums = known_places[half:], known_sums[half:]
        while known_places and known_places[-1] >= places[0]:
            # Nothing was written there after all: the disk was full.
            known_places.pop()
            known_sums.pop()
        # First the sums: a place that is found has one.
        known_sums.extend(sums)
        known_places.extend(places)
        self._marks = known_places, known_sums

    def has_bodies(
        self, payload: memoryview, log_offsets: NDArray[np.int64], sizes: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Say of records, read end to end, whether each has the body that was sent: bool[n]."""
        starts = starts_of(sizes)
        if len(sizes) < MARK_RECORDS:
            return has_bodies(payload, starts, sizes)
        is_right = np.zeros(len(sizes), dtype=np.bool_)
        at = 0
        range_starts, range_ends = ranges_of(log_offsets, sizes)
        for start, stop in zip(range_starts.tolist(), range_ends.tolist(), strict=True):
            view = payload[at : at + stop - start]
            proven = self._proven(view, start)
            first, last = np.searchsorted(starts, [at + proven.start, at + proven.stop]).tolist()
            is_right[first:last] = True
            at += len(view)
        rest = np.flatnonzero(~is_right)
        if len(rest):
            is_right[rest] = has_bodies(payload, starts[rest], sizes[rest])
        return is_right

    def _proven(self, view: memoryview, log_offset: int) -> slice:
        """Return the part of `view`, records right behind each other, that is as it was written."""
        places, sums = self._marks
        first = bisect_left(places, log_offset)
        last = bisect_right(places, log_offset + len(view)) - 1
        if last <= first:
            return _NOTHING
        start, stop = places[first] - log_offset, places[last] - log_offset
        is_same = crc32(view[start:stop], sums[first]) == sums[last]
        return slice(start, stop) if is_same else _NOTHING
