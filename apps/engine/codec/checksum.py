"""The one CRC-32 (zlib polynomial) of the store, by a library that uses the processor's own."""

from typing import Protocol

from isal import isal_zlib

from apps.engine.codec.layout import BODY_CRC_MASK

Buffer = bytes | bytearray | memoryview


class _Crc32(Protocol):
    def __call__(self, data: Buffer, value: int = 0, /) -> int:
        """Return the CRC-32 of `data`, continuing from `value`; 0 for nothing."""
        ...


# The library's own function: a wrapper would cost as much as the checksum of a small body.
crc32: _Crc32 = isal_zlib.crc32


def body_crc(body: Buffer) -> int:
    """Return a body's checksum as a record keeps it: CRC-32 with the sign bit cleared."""
    return crc32(body) & BODY_CRC_MASK
