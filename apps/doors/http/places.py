"""Topics, queues, offsets and times as documents name them. Knows values and pointers, no verb."""

import re
from collections.abc import Iterable

from apps.doors.http import times
from apps.doors.http.reading import LONG_MAX
from apps.doors.http.refusals import Refusal, invalid
from apps.doors.http.routing import name_rule
from apps.doors.http.shapes import QueueItem
from apps.engine import limits
from apps.engine.codec.layout import LITE_PREFIX
from apps.engine.codec.litenames import lite_parts, lite_spec
from apps.engine.errors import InvalidLiteTopic, UnknownQueue, UnknownTopic
from apps.engine.grouptypes import QueuePlace
from apps.engine.types import CatalogSnapshot, TopicSpec, TopicType

_DECIMAL = re.compile(r"[0-9]{1,19}")


def topic_at(name: str, pointer: str) -> str:
    """Return a topic's name; raise Refusal for what can be none."""
    return _named(name, "topic", pointer)


def group_at(name: str, pointer: str) -> str:
    """Return a group's name; raise Refusal for what can be none."""
    return _named(name, "group", pointer)


def _named(name: str, kind: str, pointer: str) -> str:
    if limits.NAME_PATTERN.fullmatch(name) is None:
        rule = name_rule(kind)
        raise Refusal("invalid_name", rule, errors=({"pointer": pointer, "detail": rule},))
    return name


def lite_name(name: str) -> str:
    """Return what a lite topic is called in its parent; an empty text for any other topic."""
    parts = lite_parts(name)
    return "" if parts is None else parts[1]


def check_takes_messages(catalog: CatalogSnapshot, name: str) -> None:
    """Raise InvalidLiteTopic for a topic that has lite topics: its messages are for one of them."""
    topic = catalog.topics.get(name)
    if topic is not None and topic.type is TopicType.LITE:
        raise InvalidLiteTopic(
            f"topic {name} has lite topics, and its messages are for one of them: "
            f"send to {LITE_PREFIX}{name}|NAME"
        )


def plain_topic(catalog: CatalogSnapshot, name: str) -> TopicSpec:
    """Return a topic that messages can be sent to by its name alone; see `writable_topic`."""
    check_takes_messages(catalog, name)
    return writable_topic(catalog, name)


def writable_topic(catalog: CatalogSnapshot, name: str) -> TopicSpec:
    """Return a topic that takes messages; raise UnknownTopic, or UnknownQueue when it has none."""
    topic = catalog.topics.get(name) or lite_spec(catalog, name)
    if topic is None:
        raise UnknownTopic(f"there is no topic {name}")
    if topic.writable_count == 0:
        raise UnknownQueue("no queue of the topic takes messages")
    return topic


def places_at(items: Iterable[QueueItem], pointer: str) -> list[QueuePlace]:
    """Return the queues of a list in order; raise Refusal for a bad name."""
    return [
        QueuePlace(topic=topic_at(item.topic, f"{pointer}/{index}/topic"), queue=item.queue)
        for index, item in enumerate(items)
    ]


def offset_at(value: str | int, pointer: str) -> int:
    """Return a queue offset that was written as a text or a number; raise Refusal for no offset."""
    # The pattern of the document would take a line break behind the digits.
    if isinstance(value, str) and _DECIMAL.fullmatch(value) is None:
        raise invalid(pointer, "must be a decimal number")
    queue_offset = int(value)
    if queue_offset > LONG_MAX:
        raise invalid(pointer, "must fit 64 bits")
    return queue_offset


def time_at(value: str | int, pointer: str) -> int:
    """Return a time in milliseconds since 1970 UTC; raise Refusal for no time, or an earlier one.

    A text of digits is such a number too, as a query has no other way to write one.
    """
    if isinstance(value, str):
        found = int(value) if _DECIMAL.fullmatch(value) else times.parsed(value)
        if found is None:
            raise invalid(
                pointer, "must be RFC 3339 with a time zone, or milliseconds since 1970 UTC"
            )
        value = found
    if not 0 <= value <= LONG_MAX:
        raise invalid(pointer, "must not be before 1970, and fit 64 bits")
    return value
