"""Views that read a field at any byte of a buffer. Knows NumPy and bytes, nothing of records.

A record may start anywhere, so its fields are unaligned. A view with a stride of one byte lets a
whole column be gathered or assigned by one indexing operation, whatever the record sizes are.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Buffer = bytes | bytearray | memoryview


def window(buffer: Buffer, dtype: str) -> NDArray[Any]:
    """Return an array whose element `i` is the value at byte `i`; empty when too short."""
    width = np.dtype(dtype).itemsize
    length = max(len(buffer) - width + 1, 0)
    return np.ndarray(
        (length,), dtype=dtype, buffer=buffer if length else bytes(width), strides=(1,)
    )


def ragged_index(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions start..start+length of every item, end to end: int64[sum(lengths)]."""
    ends = np.cumsum(lengths)
    shift = starts - (ends - lengths)
    return np.repeat(shift, lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
