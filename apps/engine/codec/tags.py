"""The stable tag hash, Java's string hash, and the tags of a subscription. Knows text only."""

from functools import lru_cache

from apps.engine.errors import InvalidFilter

# A longer tag is hashed each time rather than kept.
_TAG_CHARACTERS_KEPT = 64


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: signed 32 bit, over UTF-16 code units; 0 when empty."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(units[::2], units[1::2], strict=True):
            value = (31 * value + (high << 8) + low) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


_kept_hash = lru_cache(maxsize=4096)(java_hash)


def tag_hash(tag: str) -> int:
    """Return the hash of a tag; 0 when it is empty.

    Tags come again and again, and hashing one costs 0.1 us a character: most are remembered.
    """
    return _kept_hash(tag) if len(tag) <= _TAG_CHARACTERS_KEPT else java_hash(tag)


def queue_of_key(sharding_key: str, queue_count: int) -> int:
    """Return the queue a sharding key belongs to: hash first, then modulo (RocketMQ's ByHash).

    Java's `abs` leaves the smallest integer negative; RocketMQ then uses 0.
    """
    value = abs(java_hash(sharding_key))
    return 0 if value == 1 << 31 else value % queue_count


def filter_tags(expression: str) -> list[str] | None:
    """Return the tags of a subscription `A || B` in order; None for `*` or nothing: all of them.

    Raises InvalidFilter for an empty tag.
    """
    if expression.strip() in ("", "*"):
        return None
    tags = []
    at = 0
    for part in expression.split("||"):
        tag = part.strip()
        if not tag:
            raise InvalidFilter(f"at character {at + 1}: expected a tag")
        tags.append(tag)
        at += len(part) + 2
    return tags
