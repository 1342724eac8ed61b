"""Bring records that lie apart in the log together. Knows ranges of bytes, nothing of queues.

Ranges with small gaps between them are read in one go into a buffer that is used again, because
touching fresh memory costs more than reading. Cutting the wanted records out of it is one slice a
record and a join: 0.14 us for a record of 1 KiB, where an index array over its bytes costs 4.7 us.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# Copying so much out of the page cache costs no more than another system call: 1.5 us.
_GAP_BYTES_MAX = 16 * 1024
# Bounds the buffer; larger ones are not faster.
_SPAN_BYTES_MAX = 256 * 1024


Take = Callable[[int], NDArray[np.uint8]]
"""Gives memory of a size in bytes."""


def fresh(size_bytes: int) -> NDArray[np.uint8]:
    """Return new memory."""
    # Not a bytearray: it would be filled with zeros first.
    return np.empty(size_bytes, dtype=np.uint8)


class Source(Protocol):
    """Bytes that may be read from any place."""

    def read_into(self, offset: int, target: memoryview, *, wait: bool = True) -> None:
        """Fill `target`; raise NotCached when `wait` is false and the disk would be waited for."""
        ...


def gather(
    segments: Source,
    log_offsets: NDArray[np.int64],
    sizes: NDArray[np.int32],
    *,
    wait: bool,
    take: Take = fresh,
) -> memoryview:
    """Return the records end to end, in memory that `take` gives.

    Raises NotCached when `wait` is false and one is cold.
    """
    stops = np.cumsum(sizes, dtype=np.int64)
    payload = take(int(stops[-1]) if len(stops) else 0).data
    target = payload
    ends = log_offsets + sizes
    gaps = log_offsets[1:] - ends[:-1]
    if not gaps.any():
        if len(sizes):
            segments.read_into(int(log_offsets[0]), target, wait=wait)
        return payload
    blocks = log_offsets // _SPAN_BYTES_MAX
    is_apart = (gaps < 0) | (gaps > _GAP_BYTES_MAX) | (blocks[1:] != blocks[:-1])
    borders = np.concatenate(([0], np.flatnonzero(is_apart) + 1, [len(sizes)]))
    span_starts, span_ends = log_offsets[borders[:-1]], ends[borders[1:] - 1]
    scratch = np.empty(int((span_ends - span_starts).max()), dtype=np.uint8).data
    starts, stops_in_log = log_offsets.tolist(), ends.tolist()
    at = 0
    for (first, last), start, stop, at_end in zip(
        pairwise(borders.tolist()),
        span_starts.tolist(),
        span_ends.tolist(),
        stops[borders[1:] - 1].tolist(),
        strict=True,
    ):
        if stop - start == at_end - at:
            segments.read_into(start, target[at:at_end], wait=wait)
        else:
            span = scratch[: stop - start]
            segments.read_into(start, span, wait=wait)
            wanted = zip(starts[first:last], stops_in_log[first:last], strict=True)
            target[at:at_end] = b"".join([span[a - start : b - start] for a, b in wanted])
        at = at_end
    return payload
