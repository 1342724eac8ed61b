"""What is told of a message that was recalled before its time. Knows bytes; no state and no files.

It lies where consumers tell of their work (docs/FORMAT.md section 10), since a recall as well is
what became of a message.
"""

import json

from apps.engine.broker.produce import CheckedBatch, internal_batch
from apps.engine.codec.layout import TRACE_RECALLED, TRACE_TOPIC, TRACE_VERSION
from apps.engine.codec.properties import KEYS, encode_properties
from apps.engine.codec.record import encode_record

_KEYS_BYTES_MAX = 16 * 1024


def recalled_batch(
    *, topic: str, queue: int, message_id: str, due_ms: int, at_ms: int
) -> CheckedBatch:
    """Return the message that tells of a recall; times are wall ms."""
    record = {
        "topic": topic,
        "queue": queue,
        "offset": -1,
        "id": message_id,
        "attempt": 0,
        "due_ms": due_ms,
        "started_ms": at_ms,
        "ended_ms": at_ms,
        "result": TRACE_RECALLED,
    }
    document = {"v": TRACE_VERSION, "group": "", "client": "", "records": [record]}
    encoded = encode_record(
        topic=TRACE_TOPIC.encode(),
        queue=0,
        body=json.dumps(document, separators=(",", ":")).encode(),
        properties=encode_properties({KEYS: message_id}) if _is_key(message_id) else b"",
        born_time_ms=at_ms,
    )
    return internal_batch(TRACE_TOPIC, encoded)


def _is_key(text: str) -> bool:
    is_word = text.split() == [text] and "\x01" not in text and "\x02" not in text
    return is_word and len(text.encode()) <= _KEYS_BYTES_MAX
