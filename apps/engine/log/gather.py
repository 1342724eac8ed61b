"""Bring records that lie apart in the log together. Knows ranges of bytes, nothing of queues.

Ranges with small gaps between them are read in one go. Cutting the wanted records out of what was
read is one slice a record and a join: 0.14 us for a record of 1 KiB, where an index array over its
bytes costs 4.7 us.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from apps.engine.files.segments import Segments

# Copying so much out of the page cache costs no more than another system call.
_GAP_BYTES_MAX = 16 * 1024
# Bounds the memory a read takes beyond what it returns.
_SPAN_BYTES_MAX = 1 << 20


def gather(
    segments: Segments, log_offsets: NDArray[np.int64], sizes: NDArray[np.int32], *, wait: bool
) -> bytearray:
    """Return the records end to end. Raises NotCached when `wait` is false and one is cold."""
    if not len(sizes):
        return bytearray()
    ends = log_offsets + sizes
    gaps = log_offsets[1:] - ends[:-1]
    if not gaps.any():
        return _read(segments, int(log_offsets[0]), int(ends[-1]), wait=wait)
    blocks = log_offsets // _SPAN_BYTES_MAX
    is_apart = (gaps < 0) | (gaps > _GAP_BYTES_MAX) | (blocks[1:] != blocks[:-1])
    borders = [0, *(np.flatnonzero(is_apart) + 1).tolist(), len(sizes)]
    parts: list[memoryview] = []
    for first, stop in pairwise(borders):
        start = int(log_offsets[first])
        span = _read(segments, start, int(ends[stop - 1]), wait=wait)
        if stop - first > 1:
            view = memoryview(span)
            left = (log_offsets[first:stop] - start).tolist()
            right = (ends[first:stop] - start).tolist()
            parts.extend(view[a:b] for a, b in zip(left, right, strict=True))
        else:
            parts.append(memoryview(span))
    return bytearray().join(parts)


def _read(segments: Segments, start: int, stop: int, *, wait: bool) -> bytearray:
    target = bytearray(stop - start)
    segments.read_into(start, memoryview(target), wait=wait)
    return target
