"""Records to messages of a JSON answer. Knows one record's values; asks nothing of the engine."""

from base64 import b64encode
from collections.abc import Iterator

import msgspec
from msgspec import UNSET, UnsetType

from apps.doors.http.shapes import AttemptItem, IncomingMessage
from apps.doors.http.times import rfc3339
from apps.engine.codec import properties as names
from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import Record, decode_record
from apps.engine.codec.tags import java_hash
from apps.engine.filters.subscription import compile_filter
from apps.engine.types import FilterType, MessageBlock

# Shown as fields of their own.
_FIELDS = frozenset(
    {names.TAGS, names.KEYS, names.UNIQ_KEY, names.SHARDING_KEY, names.RETRY_HISTORY}
)
# Where a retried or dead message came from, in the order of preference.
_ORIGIN_TOPICS = (names.DLQ_ORIGIN_TOPIC, names.RETRY_TOPIC)
_ORIGIN_MESSAGE_IDS = (names.DLQ_ORIGIN_MESSAGE_ID, names.ORIGIN_MESSAGE_ID)
# Number, wall ms, reason and client id of each failed attempt.
_history = msgspec.json.Decoder(list[tuple[int, int, str, str]])


def records_of(block: MessageBlock) -> Iterator[Record]:
    """Yield the records of a block in order."""
    payload = block.payload
    for start in starts_of(block.sizes).tolist():
        yield decode_record(payload, start)


class TagFilter:
    """Tells the messages that only share a hash with the tags asked for.

    The engine filters tags by hash, and two may have the same one. A message whose hash is not
    among those asked for was handed out for a reason of the engine's own, and is none of these.
    Conditions on properties (SQL92) are the engine's alone.
    """

    def __init__(self, expression: str, filter_type: FilterType) -> None:
        """Read a subscription; one without tags has no collisions."""
        found = compile_filter(expression, filter_type)
        self._tags = found.tags or frozenset()
        self._hashes = found.hashes or ()

    def is_collision(self, record: Record) -> bool:
        """Say whether a record has another tag than was asked for, with the hash of one."""
        if not self._hashes:
            return False
        tag = record.properties.get(names.TAGS, "")
        return tag not in self._tags and java_hash(tag) in self._hashes


def message_of(
    record: Record,
    *,
    receipt_handle: str | UnsetType = UNSET,
    delivery_attempt: int | UnsetType = UNSET,
    invisible_until: str | UnsetType = UNSET,
) -> IncomingMessage:
    """Return a record as the JSON answer shows it."""
    properties = record.properties
    body: str | UnsetType = UNSET
    body_base64: str | UnsetType = UNSET
    try:
        body = record.body.decode()
    except UnicodeDecodeError:
        body_base64 = b64encode(record.body).decode()
    return IncomingMessage(
        message_id=record.message_id,
        topic=record.topic,
        queue=record.queue,
        offset=str(record.queue_offset),
        tag=properties.get(names.TAGS),
        keys=properties.get(names.KEYS, "").split(),
        properties={name: value for name, value in properties.items() if name not in _FIELDS},
        sharding_key=properties.get(names.SHARDING_KEY),
        born_time=_time(record.born_time_ms),
        store_time=rfc3339(record.store_time_ms),
        reconsume_times=record.reconsume_times,
        body=body,
        body_base64=body_base64,
        origin_topic=_first(properties, _ORIGIN_TOPICS),
        origin_message_id=_first(properties, _ORIGIN_MESSAGE_IDS),
        attempts=_attempts_of(properties),
        receipt_handle=receipt_handle,
        delivery_attempt=delivery_attempt,
        invisible_until=invisible_until,
    )


def _attempts_of(properties: dict[str, str]) -> list[AttemptItem] | UnsetType:
    """Return the failed attempts a record tells of. A client may have written it, and anything."""
    history = properties.get(names.RETRY_HISTORY)
    if history is None:
        return UNSET
    try:
        rows = _history.decode(history)
    except (msgspec.DecodeError, RecursionError):
        return UNSET
    return [AttemptItem(number, _time(at_ms), text, who) for number, at_ms, text, who in rows]


def _time(time_ms: int) -> str | None:
    """Return a time somebody else wrote; None for what is no time at all."""
    try:
        return rfc3339(time_ms) if time_ms > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _first(properties: dict[str, str], choices: tuple[str, ...]) -> str | UnsetType:
    for name in choices:
        if name in properties:
            return properties[name]
    return UNSET
