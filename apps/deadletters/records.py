"""What a dead letter's record says, as columns and as a body. Pure: knows the engine's codec.

Every text of it comes from a producer or a consumer, and is taken for hostile: cut to its column,
without the character that PostgreSQL cannot hold.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from apps.core.moments import moment
from apps.deadletters.models import DeadLetter
from apps.deadletters.models.letters import KEYS_CHARACTERS_MAX, TEXT_CHARACTERS_MAX
from apps.engine.codec import properties
from apps.engine.codec.layout import DEAD_LETTER_PREFIX, RETRY_PREFIX
from apps.engine.codec.record import Record, decode_record
from apps.engine.types import MessageBlock
from apps.groups.models.fields import REASON_CHARACTERS_MAX

# As many attempts as the engine keeps of one message.
_HISTORY_MAX = 32
_CLIENT_CHARACTERS_MAX = 255
_NUMBER_MAX = 2**63 - 1
# The last millisecond of the year 9999.
_TIME_MS_MAX = 253_402_300_799_999
_HISTORY_CHARACTERS_MAX = 32 * 1024


def topic_of(group: str) -> str:
    """Return the topic of a group's dead letters."""
    return DEAD_LETTER_PREFIX + group


def group_of(topic: str) -> str:
    """Return the group whose dead letters a topic has."""
    return topic.removeprefix(DEAD_LETTER_PREFIX)


def retry_topic_of(group: str) -> str:
    """Return the topic whose messages only this group is given."""
    return RETRY_PREFIX + group


def records_of(block: MessageBlock) -> Iterator[Record]:
    """Yield the records of a block, one by one: a page or a step of them, never a hot path."""
    start = 0
    for size in block.sizes.tolist():
        yield decode_record(block.payload, start)
        start += size


def row_of(record: Record, *, store_id: str, group: str) -> DeadLetter:
    """Return the row of a dead letter, unsaved and waiting."""
    said = record.properties
    history = history_of(said.get(properties.RETRY_HISTORY, ""))
    has_first = bool(history) and history[0][0] == 1
    return DeadLetter(
        store_id=store_id,
        group=group,
        queue_offset=record.queue_offset,
        origin_topic=_text(
            said.get(properties.DLQ_ORIGIN_TOPIC) or said.get(properties.RETRY_TOPIC, ""),
            TEXT_CHARACTERS_MAX,
        ),
        origin_queue=_number(said, properties.ORIGIN_QUEUE),
        origin_offset=_number(said, properties.ORIGIN_OFFSET),
        message_id=_text(
            said.get(properties.DLQ_ORIGIN_MESSAGE_ID)
            or said.get(properties.ORIGIN_MESSAGE_ID)
            or record.message_id,
            TEXT_CHARACTERS_MAX,
        ),
        keys=_text(said.get(properties.KEYS, ""), KEYS_CHARACTERS_MAX),
        tag=_text(said.get(properties.TAGS, ""), TEXT_CHARACTERS_MAX),
        attempts=max(0, record.reconsume_times),
        reason=history[-1][2][:REASON_CHARACTERS_MAX] if history else "",
        history=history,
        first_failed_at=moment(history[0][1]) if has_first else None,
        dead_at=moment(record.store_time_ms),
        size_bytes=record.size_bytes,
    )


def history_of(text: str) -> list[list[Any]]:  # Rows of JSON: number, at_ms, reason, client id.
    """Return the attempts that `RETRY_HISTORY` tells; what is not of that shape is left out."""
    if not text or len(text) > _HISTORY_CHARACTERS_MAX:
        return []
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(found, list):
        return []
    return [_attempt(entry) for entry in found if _is_attempt(entry)][-_HISTORY_MAX:]


def _is_attempt(entry: Any) -> bool:  # Whatever JSON there is.
    if not isinstance(entry, list) or len(entry) != 4:
        return False
    number, at_ms, reason, client_id = entry
    return (
        type(number) is int
        and 0 <= number <= _NUMBER_MAX
        and type(at_ms) is int
        and 0 <= at_ms <= _TIME_MS_MAX
        and isinstance(reason, str)
        and isinstance(client_id, str)
    )


def _attempt(entry: list[Any]) -> list[Any]:
    number, at_ms, reason, client_id = entry
    return [
        number,
        at_ms,
        _text(reason, REASON_CHARACTERS_MAX),
        _text(client_id, _CLIENT_CHARACTERS_MAX),
    ]


def _number(said: Mapping[str, str], name: str) -> int | None:
    text = said.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 19) or int(text) > _NUMBER_MAX:
        return None
    return int(text)


def _text(text: str, characters_max: int) -> str:
    # A lone surrogate can come out of an escape in JSON, and no encoding has it.
    printable = text.replace("\0", "\ufffd").encode(errors="replace").decode()
    return printable[:characters_max]
