"""Names of lite topics: of parent and name the engine's own topic, and back; and what it is like.

Knows text and what topics there are; no store.
"""

from dataclasses import replace

from apps.engine.codec.layout import LITE_PREFIX
from apps.engine.errors import InvalidLiteTopic
from apps.engine.limits import (
    LITE_NAME_CHARACTERS_MAX,
    LITE_NAME_PATTERN,
    NAME_CHARACTERS_MAX,
    NAME_PATTERN,
)
from apps.engine.types import CatalogSnapshot, Cleanup, TopicSpec, TopicType


def lite_topic(parent: str, name: str) -> str:
    """Return the engine's own topic that is the lite topic `name`. Raises InvalidLiteTopic."""
    if LITE_NAME_PATTERN.fullmatch(name) is None:
        raise InvalidLiteTopic(
            f"a lite topic is 1 to {LITE_NAME_CHARACTERS_MAX} of letters, digits, _ and -"
        )
    topic = f"{LITE_PREFIX}{parent}|{name}"
    if NAME_PATTERN.fullmatch(topic) is None:
        most = NAME_CHARACTERS_MAX - len(LITE_PREFIX) - 1
        raise InvalidLiteTopic(
            f"a topic and a lite topic of it are {most} characters together at the most"
        )
    return topic


def is_lite(topic: str) -> bool:
    """Say whether a topic is a lite one by its name."""
    return topic.startswith(LITE_PREFIX)


def lite_parts(topic: str) -> tuple[str, str] | None:
    """Return parent and name of a lite topic; None for any other topic."""
    if not topic.startswith(LITE_PREFIX):
        return None
    parent, bar, name = topic[len(LITE_PREFIX) :].rpartition("|")
    return (parent, name) if bar and parent and LITE_NAME_PATTERN.fullmatch(name) else None


def lite_spec(catalog: CatalogSnapshot, name: str) -> TopicSpec | None:
    """Return a lite topic by its own name, whether it has a message yet or not; None for others.

    What holds for its parent holds for it, which has one queue.
    """
    parts = lite_parts(name)
    if parts is None or len(name) > NAME_CHARACTERS_MAX:
        return None
    parent = catalog.topics.get(parts[0])
    if parent is None or parent.type is not TopicType.LITE:
        return None
    return replace(parent, name=name, queue_count=1, write_queue_count=None, cleanup=Cleanup.DELETE)
