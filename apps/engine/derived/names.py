"""Names that are safe on disk whatever a topic is called. Knows text only."""

import re

_UNSAFE = re.compile(rb"[^A-Za-z0-9_-]")


def safe_name(topic: str) -> str:
    """Return `topic` with all but letters, digits, `_` and `-` as `%` and two hex digits."""
    return _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], topic.encode()).decode()


def queue_directory(topic: str, queue: int) -> str:
    """Return the directory of a queue's consume-queue files."""
    return f"consumequeue/{safe_name(topic)}/{queue}"
