"""Say of many records whether their bodies are what was sent. Knows bytes and arrays only."""

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec import layout
from apps.engine.codec.checksum import crc32
from apps.engine.codec.windows import window

_BODY_CRC_AT = 8
_BODY_BYTES_AT = 84


def has_bodies(
    payload: bytes | bytearray | memoryview, starts: NDArray[np.int64], sizes: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Say of each record whether its body has its checksum: bool[n].

    A loop over messages, as in `check`: CRC-32 has no array form, a body of 1 KiB takes 0.8 us.
    """
    ints = window(payload, ">i4")
    body_bytes = ints[starts + _BODY_BYTES_AT].astype(np.int64)
    is_right = (body_bytes >= 0) & (body_bytes <= sizes - layout.RECORD_FIXED_BYTES)
    first = starts + layout.RECORD_HEADER_BYTES
    stops = np.where(is_right, first + body_bytes, first)
    view = memoryview(payload)
    spans = zip(first.tolist(), stops.tolist(), strict=True)
    found = np.array([crc32(view[start:stop]) for start, stop in spans], dtype=np.int64)
    result: NDArray[np.bool_] = is_right & (
        (found & layout.BODY_CRC_MASK) == ints[starts + _BODY_CRC_AT]
    )
    return result
