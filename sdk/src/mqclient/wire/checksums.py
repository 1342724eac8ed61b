"""CRC-32, by the fastest implementation at hand. Knows bytes only."""

import zlib
from collections.abc import Callable

Crc32 = Callable[..., int]


def _fastest() -> Crc32:
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.crc32
    fast: Crc32 = isal_zlib.crc32
    return fast


crc32 = _fastest()
# Bodies carry the checksum with the sign bit cleared, as Java's signed int shows it.
BODY_CRC_MASK = 0x7FFFFFFF
