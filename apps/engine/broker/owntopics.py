"""The engine's own topics: there without anybody's decision, never written to by a client.

Knows names. A group's retry topic and dead letters have one queue each, as in RocketMQ.
"""

from apps.engine.codec.layout import (
    DEAD_LETTER_PREFIX,
    GIVEN_UP_TOPIC,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
)
from apps.engine.types import PERM_READ, TopicSpec

# Of RocketMQ's system topics these may be read; the others show what nobody may see yet.
_HIDDEN = frozenset({SCHEDULE_TOPIC, HALF_TOPIC, HALF_OP_TOPIC})
_SYSTEM = _HIDDEN | {GIVEN_UP_TOPIC}
_OF_GROUPS = (RETRY_PREFIX, DEAD_LETTER_PREFIX)


def retry_topic(group: str) -> str:
    """Return the topic in which the group's failed messages come again."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return the topic of the group's dead letters."""
    return DEAD_LETTER_PREFIX + group


def is_own(topic: str) -> bool:
    """Say whether a topic is the engine's own, and so never part of the catalog."""
    return topic in _SYSTEM or topic.startswith((SYSTEM_PREFIX, *_OF_GROUPS))


def own_spec(topic: str) -> TopicSpec | None:
    """Return the specification of an own topic that clients may read; None for any other."""
    if topic == GIVEN_UP_TOPIC or (topic.startswith(_OF_GROUPS) and topic not in _OF_GROUPS):
        return TopicSpec(name=topic, queue_count=1, perm=PERM_READ)
    return None
