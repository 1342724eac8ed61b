"""The stable tag hash: Java's string hash. Knows text only."""


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


def queue_of_key(sharding_key: str, queue_count: int) -> int:
    """Return the queue a sharding key belongs to: hash first, then modulo (RocketMQ's ByHash).

    Java's `abs` leaves the smallest integer negative; RocketMQ then uses 0.
    """
    value = abs(java_hash(sharding_key))
    return 0 if value == 1 << 31 else value % queue_count


def filter_hashes(expression: str) -> list[int] | None:
    """Return the tag hashes a subscription `A || B` may match; None when it takes all messages."""
    tags = filter_tags(expression)
    return None if tags is None else [java_hash(tag) for tag in tags]


def filter_tags(expression: str) -> list[str] | None:
    """Return the tags of a subscription `A || B` in order; None for `*` or nothing: all of them."""
    text = expression.strip()
    if text in ("", "*"):
        return None
    return [tag for tag in (part.strip() for part in text.split("||")) if tag]
