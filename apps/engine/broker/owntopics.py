"""The engine's own topics: there without anybody's decision. Clients write to that of traces only,
and to lite topics, which are as their parents are.

Knows names. A group's retry topic and dead letters have one queue each, as in RocketMQ.
"""

from apps.engine.codec.layout import (
    DEAD_LETTER_PREFIX,
    GIVEN_UP_TOPIC,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    LITE_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
    TRACE_TOPIC,
)
from apps.engine.types import PERM_READ, PERM_WRITE, TopicSpec

# Of RocketMQ's system topics these may be read; the others show what nobody may see yet.
_HIDDEN = frozenset({SCHEDULE_TOPIC, HALF_TOPIC, HALF_OP_TOPIC})
_SYSTEM = _HIDDEN | {GIVEN_UP_TOPIC}
_OF_GROUPS = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
_OWN = (SYSTEM_PREFIX, LITE_PREFIX, *_OF_GROUPS)
_TRACES = TopicSpec(name=TRACE_TOPIC, queue_count=1, perm=PERM_READ | PERM_WRITE)


def retry_topic(group: str) -> str:
    """Return the topic in which the group's failed messages come again."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return the topic of the group's dead letters."""
    return DEAD_LETTER_PREFIX + group


def is_own(topic: str) -> bool:
    """Say whether a topic is the engine's own, and so never part of the catalog."""
    return topic in _SYSTEM or topic.startswith(_OWN)


def own_spec(topic: str) -> TopicSpec | None:
    """Return the specification of an own topic that clients may use; None for any other."""
    if topic == TRACE_TOPIC:
        return _TRACES
    if topic == GIVEN_UP_TOPIC or (topic.startswith(_OF_GROUPS) and topic not in _OF_GROUPS):
        return TopicSpec(name=topic, queue_count=1, perm=PERM_READ)
    return None
