"""Java's string hash and what is chosen by it. Knows text and numbers only."""

import struct
from functools import lru_cache

_INT_MIN = -(1 << 31)


@lru_cache(maxsize=65_536)
def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode`: signed 32 bits over UTF-16 code units, 0 for no text."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def queue_by_hash(key: str, queue_count: int) -> int:
    """Return the queue of a sharding key: hash first, then modulo, as RocketMQ's ByHash."""
    value = java_string_hash(key)
    # Java's absolute value of the smallest int is itself, negative; RocketMQ takes 0 then.
    return 0 if value == _INT_MIN else abs(value) % queue_count
