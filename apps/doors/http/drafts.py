"""One JSON message to one record, or the reason why not. Knows a message, no request."""

import binascii
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from apps.doors.http import places
from apps.doors.http.refusals import invalid
from apps.doors.http.settings import DoorSettings
from apps.doors.http.shapes import OutgoingMessage
from apps.engine.codec import properties as names
from apps.engine.codec.layout import LITE_PROPERTY
from apps.engine.codec.tags import queue_of_key
from apps.engine.errors import (
    DelayTooLong,
    InvalidArgument,
    MalformedBatch,
    MessageIllegal,
    MessageTooLarge,
    UnknownQueue,
)
from apps.engine.types import Special

_ONE_DELAY = "give one of delay_level, deliver_at and delay_ms"


class Waiting(Enum):
    """What a message waits for. The engine keeps the ways apart, and so do batches."""

    NOT = auto()
    LEVEL = auto()
    TIME = auto()


class Delay(NamedTuple):
    """What a message waits for, and the property of its record that says so."""

    waiting: Waiting
    name: str
    value: int


@dataclass(slots=True)
class Run:
    """Records of consecutive messages for one queue, and what the answer will say of them.

    All of them wait for the same.
    """

    queue: int
    waiting: Waiting
    records: list[bytes]
    sizes: list[int]
    tag_hashes: list[int]
    indexes: list[int]
    message_ids: list[str]
    special: Special


def is_delayed(message: OutgoingMessage) -> bool:
    """Say whether a message asks for a delay of any kind."""
    return (
        message.delay_level is not None
        or message.deliver_at is not None
        or message.delay_ms is not None
    )


def delay_field(message: OutgoingMessage) -> str:
    """Return the first field by which a delayed message asks for that."""
    if message.delay_level is not None:
        return "delay_level"
    return "delay_ms" if message.deliver_at is None else "deliver_at"


def delay_of(message: OutgoingMessage, pointer: str) -> Delay:
    """Return what a message that asks for a delay waits for.

    Raises Refusal, naming the field below `pointer`, when it asks twice or names no time.
    """
    level, time, delay_ms = message.delay_level, message.deliver_at, message.delay_ms
    if delay_ms is not None:
        if level is not None or time is not None:
            raise invalid(f"{pointer}/delay_ms", _ONE_DELAY)
        return Delay(Waiting.TIME, names.TIMER_DELAY_MS, delay_ms)
    if time is not None:
        if level is not None:
            raise invalid(f"{pointer}/deliver_at", _ONE_DELAY)
        due_ms = places.time_at(time, f"{pointer}/deliver_at")
        return Delay(Waiting.TIME, names.TIMER_DELIVER_MS, due_ms)
    assert level is not None
    return Delay(Waiting.LEVEL, names.DELAY, level)


def check_delay(delay: Delay, now_ms: int, settings: DoorSettings) -> None:
    """Raise DelayTooLong for a time further off than messages may wait; no level is."""
    if delay.waiting is Waiting.LEVEL:
        return
    wait_ms = delay.value if delay.name == names.TIMER_DELAY_MS else delay.value - now_ms
    if wait_ms > settings.delay_ms_max:
        raise DelayTooLong(f"a message waits for at most {settings.delay_ms_max} ms")


def check_key(message: OutgoingMessage) -> None:
    """Raise MessageIllegal for a message without a key; a compacted topic takes none."""
    if not message.keys:
        raise MessageIllegal("the topic is compacted, so each message needs keys")


def queue_for(message: OutgoingMessage, queue_count: int) -> int | None:
    """Return the queue a message asks for; None when it leaves the choice to the door.

    `queue_count` is that of the queues that take messages. Raises UnknownQueue, or InvalidArgument
    when it asks twice.
    """
    queue, key = message.queue, message.sharding_key
    if message.priority is not None:
        if queue is not None or key is not None:
            raise InvalidArgument("give one of sharding_key, queue and priority")
        return min(message.priority, queue_count - 1)
    if queue is None:
        if key is None:
            return None
        if not key:
            raise InvalidArgument("sharding_key must not be empty")
        return queue_of_key(key, queue_count)
    if key is not None:
        raise InvalidArgument("give sharding_key or queue, not both")
    if not 0 <= queue < queue_count:
        raise UnknownQueue(f"the topic takes messages in queues 0 to {queue_count - 1}")
    return queue


def body_of(message: OutgoingMessage, settings: DoorSettings) -> bytes:
    """Return the body; raise InvalidArgument when there is not exactly one, or MessageTooLarge."""
    text, encoded = message.body, message.body_base64
    if text is not None:
        if encoded is not None:
            raise InvalidArgument("give body or body_base64, not both")
        body = text.encode()
    elif encoded is not None:
        try:
            body = binascii.a2b_base64(encoded, strict_mode=True)
        except ValueError as error:
            raise InvalidArgument(f"body_base64 is not base64: {error}") from error
    else:
        raise InvalidArgument("a message needs body or body_base64")
    if len(body) > settings.body_bytes_max:
        raise MessageTooLarge(f"the body is longer than {settings.body_bytes_max} bytes")
    return body


def properties_of(
    message: OutgoingMessage,
    message_id: str,
    settings: DoorSettings,
    delay: Delay | None = None,
    *,
    lite_name: str = "",
) -> bytes:
    """Return the property section; raise InvalidArgument or MessageTooLarge.

    `lite_name` is that of the lite topic it is for.
    """
    if is_bare(message) and delay is None and not lite_name:
        data = (_section_of_tag(message.tag) + message_id + "\x02").encode()
        return _short_enough(data, settings)
    properties: dict[str, str] = {}
    if message.tag is not None:
        properties[names.TAGS] = _checked_tag(message.tag)
    if message.keys:
        properties[names.KEYS] = _joined_keys(message.keys)
    properties[names.UNIQ_KEY] = message_id
    if message.sharding_key is not None:
        properties[names.SHARDING_KEY] = message.sharding_key
    if message.priority is not None:
        properties[names.PRIORITY] = str(message.priority)
    if lite_name:
        properties[LITE_PROPERTY] = lite_name
    if message.producer_id is not None or message.producer_seq is not None:
        if message.producer_id is None or message.producer_seq is None:
            raise InvalidArgument("producer_id and producer_seq go together")
        properties[names.PRODUCER_ID] = message.producer_id
        properties[names.PRODUCER_SEQ] = str(message.producer_seq)
    if delay is not None:
        properties[delay.name] = str(delay.value)
    if message.properties:
        for name in message.properties:
            if name in names.RESERVED:
                raise InvalidArgument(f"the property name {name} is reserved")
        properties.update(message.properties)
    try:
        data = names.encode_properties(properties)
    except MalformedBatch as error:
        raise InvalidArgument(str(error)) from error
    return _short_enough(data, settings)


def is_bare(message: OutgoingMessage) -> bool:
    """Say whether a message has no property but a tag and its id; it may have to wait."""
    return not (
        message.keys
        or message.properties
        or message.sharding_key is not None
        or message.priority is not None
        or message.producer_id is not None
        or message.producer_seq is not None
    )


# Tags come again and again; one is as long as a small section.
@lru_cache(maxsize=1024)
def _section_of_tag(tag: str | None) -> str:
    """Return the text of a section up to the value of the message's id: most have no more."""
    properties = {names.UNIQ_KEY: ""}
    if tag is not None:
        properties[names.TAGS] = _checked_tag(tag)
    try:
        return names.encode_properties(properties).decode().removesuffix("\x02")
    except MalformedBatch as error:
        raise InvalidArgument(str(error)) from error


def _short_enough(data: bytes, settings: DoorSettings) -> bytes:
    if len(data) > settings.properties_bytes_max:
        raise MessageTooLarge(
            f"the properties are longer than {settings.properties_bytes_max} bytes"
        )
    return data


def _checked_tag(tag: str) -> str:
    # `||` separates the tags of a subscription, and blanks around them do not count.
    if not tag or "|" in tag or tag != tag.strip() or tag == "*":
        raise InvalidArgument(
            "a tag must not be empty, '*', hold '|', or start or end with a blank"
        )
    return tag


def _joined_keys(keys: tuple[str, ...]) -> str:
    joined = " ".join(keys)
    # Whoever reads them splits at blanks; what comes back must be what was sent.
    if tuple(joined.split()) != keys:
        raise InvalidArgument("a key must not be empty or hold a blank")
    return joined
