"""Messages as lines of the standard output. Knows JSON and the stream, no consumer."""

import base64
import json
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from mqclient.searching import FoundMessage
from mqclient.wire.records import Message

T = TypeVar("T")


def write(messages: Sequence[T], line_of: Callable[[T], bytes]) -> None:
    """Write messages and see that they have left this process; raise OSError."""
    if messages:
        sys.stdout.buffer.write(b"".join(map(line_of, messages)))
        sys.stdout.buffer.flush()


def json_line(message: Message | FoundMessage, **more: object) -> bytes:
    """Return a message as one JSON document and a line break; the body as text where it is one."""
    document: dict[str, object] = {
        "topic": message.topic,
        "queue": message.queue,
        "offset": str(message.queue_offset),
        "message_id": message.message_id,
        "tag": message.tag,
        "keys": list(message.keys),
        "sharding_key": message.sharding_key,
        "properties": dict(message.properties),
        "born_time_ms": message.born_time_ms,
        "store_time_ms": message.store_time_ms,
        **more,
    }
    try:
        document["body"] = message.body.decode()
    except UnicodeDecodeError:
        document["body_base64"] = base64.b64encode(message.body).decode("ascii")
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
