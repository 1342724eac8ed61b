"""Names that are safe on disk whatever a topic is called. Knows text only."""

import hashlib
import re

_UNSAFE = re.compile(rb"[^A-Za-z0-9_-]")
# Linux allows 255 bytes. A retry topic of 134 characters that are all unsafe would take 402.
_NAME_BYTES_MAX = 255
_KEPT_BYTES = 180


def safe_name(topic: str) -> str:
    """Return `topic` with all but letters, digits, `_` and `-` as `%` and two hex digits.

    Of one that is too long for a file system the first 180 bytes, `~` and its SHA-256 in hex.
    """
    name = _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], topic.encode()).decode()
    if len(name) <= _NAME_BYTES_MAX:
        return name
    return f"{name[:_KEPT_BYTES]}~{hashlib.sha256(topic.encode()).hexdigest()}"


def queue_directory(topic: str, queue: int) -> str:
    """Return the directory of a queue's consume-queue files."""
    return f"consumequeue/{safe_name(topic)}/{queue}"
