"""What a failed message becomes: the record of its retry, of its dead letter, and sent again.

Knows properties and records (docs/FORMAT.md 1); not where they are stored, nor when.
"""

import json
from collections.abc import Sequence

from apps.engine.broker.owntopics import retry_topic
from apps.engine.codec.properties import (
    DELAY,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    LOST_PROPERTIES,
    ORIGIN_MESSAGE_ID,
    ORIGIN_OFFSET,
    ORIGIN_QUEUE,
    RESENT_AT_MS,
    RESENT_BY,
    RETRY_HISTORY,
    RETRY_TOPIC,
    TIMER_DELAY_LEVEL,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    encode_properties,
)
from apps.engine.codec.record import Record
from apps.engine.failuretypes import Attempt
from apps.engine.limits import (
    HISTORY_MAX,
    HISTORY_REASON_CHARACTERS_MAX,
    PROPERTIES_BYTES_MAX,
)

# The properties of a retry grow by those of a delay level while it waits: four, one a topic's name.
_ROOM_BYTES = PROPERTIES_BYTES_MAX - 512
# Attempts that are kept and characters of each reason, less and less until it fits.
_HISTORIES = ((HISTORY_MAX, HISTORY_REASON_CHARACTERS_MAX), (HISTORY_MAX, 40), (8, 40), (1, 0))
_ORIGIN = (RETRY_TOPIC, ORIGIN_MESSAGE_ID, ORIGIN_QUEUE, ORIGIN_OFFSET)
_OF_DEAD_LETTERS = (DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID)
# A copy is not delayed again because the message was.
_DELAYS = (
    DELAY, TIMER_DELAY_LEVEL, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS, TIMER_OUT_MS
)  # fmt: skip
_KEPT = frozenset((*_ORIGIN, *_OF_DEAD_LETTERS, RETRY_HISTORY, LOST_PROPERTIES))


def failures_before(record: Record, group: str) -> int:
    """Return how often a message had failed for the group when it came to its queue.

    Only the engine writes to the group's retry topic; elsewhere the number is anybody's.
    """
    return record.reconsume_times if record.topic == retry_topic(group) else 0


def retried_properties(record: Record, group: str, attempts: Sequence[Attempt]) -> dict[str, str]:
    """Return the properties of a message that failed for the group, `attempts` having been added.

    Its origin is where it failed first. Where a record cannot hold them all, the history is
    shortened, and then the longest properties are left out and counted.
    """
    properties = dict(record.properties)
    for name in _DELAYS:
        properties.pop(name, None)
    if record.topic != retry_topic(group):
        for name in (*_KEPT, RESENT_BY, RESENT_AT_MS):
            properties.pop(name, None)
    properties.setdefault(RETRY_TOPIC, record.topic)
    properties.setdefault(ORIGIN_MESSAGE_ID, record.message_id)
    properties.setdefault(ORIGIN_QUEUE, str(record.queue))
    properties.setdefault(ORIGIN_OFFSET, str(record.queue_offset))
    history = [*_history(properties.pop(RETRY_HISTORY, "")), *attempts]
    return _fitting(properties, history)


def dead_letter_properties(
    record: Record, group: str, attempts: Sequence[Attempt]
) -> dict[str, str]:
    """Return the properties of a message that failed for the last time."""
    properties = retried_properties(record, group, attempts)
    properties[DLQ_ORIGIN_TOPIC] = properties[RETRY_TOPIC]
    properties[DLQ_ORIGIN_MESSAGE_ID] = properties[ORIGIN_MESSAGE_ID]
    return properties


def resent_properties(record: Record, *, is_for_group: bool, by: str, at_ms: int) -> dict[str, str]:
    """Return the properties of a dead letter that is sent again.

    One that only its group gets keeps its origin; for all others it is a message like any other.
    """
    properties = dict(record.properties)
    for name in (*_OF_DEAD_LETTERS, *(() if is_for_group else _ORIGIN), RETRY_HISTORY, *_DELAYS):
        properties.pop(name, None)
    properties[RESENT_BY] = by
    properties[RESENT_AT_MS] = str(at_ms)
    return properties


def _history(text: str) -> list[Attempt]:
    """Return the attempts that a property names; none where it is not what the engine writes."""
    try:
        return [
            Attempt(number=number, at_ms=at_ms, reason=reason, client_id=client_id)
            for number, at_ms, reason, client_id in json.loads(text or "[]")
        ]
    except (TypeError, ValueError):
        return []


def _history_text(attempts: Sequence[Attempt], *, kept: int, characters: int) -> str:
    rows = [[a.number, a.at_ms, a.reason[:characters], a.client_id] for a in attempts[-kept:]]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def _fitting(properties: dict[str, str], history: Sequence[Attempt]) -> dict[str, str]:
    """Return the properties with as much of the history as a record can hold."""
    for kept, characters in _HISTORIES:
        properties[RETRY_HISTORY] = _history_text(history, kept=kept, characters=characters)
        if len(encode_properties(properties)) <= _ROOM_BYTES:
            return properties
    # Losing a property beats losing the message: it would be neither retried nor a dead letter.
    longest = sorted(properties.keys() - _KEPT, key=lambda name: len(properties[name].encode()))
    lost = int(properties.get(LOST_PROPERTIES, "0"))
    while len(encode_properties(properties)) > _ROOM_BYTES:
        del properties[longest.pop()]
        lost += 1
        properties[LOST_PROPERTIES] = str(lost)
    return properties
