"""The one CRC-32 (zlib polynomial) of the store, by a library that uses the processor's own."""

from isal import isal_zlib

from apps.engine.codec.layout import BODY_CRC_MASK

Buffer = bytes | bytearray | memoryview


def crc32(data: Buffer, value: int = 0) -> int:
    """Return the CRC-32 of `data`, continuing from `value`; 0 for nothing."""
    return int(isal_zlib.crc32(data, value))


def body_crc(body: Buffer) -> int:
    """Return a body's checksum as a record keeps it: CRC-32 with the sign bit cleared."""
    return int(isal_zlib.crc32(body)) & BODY_CRC_MASK
