"""A message as operators see it: a record's values, its origin and what it was before.

Pure: knows the engine's codec. Every text of it comes from a producer, and is taken for hostile.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from apps.deadletters.records import history_of
from apps.engine.codec import properties as names
from apps.engine.codec.ids import offset_id
from apps.engine.codec.layout import DEAD_LETTER_PREFIX, RETRY_PREFIX, TRACE_TOPIC
from apps.engine.codec.record import Record

_NUMBER_DIGITS_MAX = 18


class Role(StrEnum):
    """What a message is to the one it came from."""

    ORIGIN = "origin"
    RETRY = "retry"
    DEAD_LETTER = "dead letter"
    RESENT = "sent again"
    TRACE = "trace"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt, as a record tells it: wall ms, and who had the message."""

    number: int
    at_ms: int
    reason: str
    client_id: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message came from first; what its record does not say is None."""

    topic: str
    message_id: str
    queue: int | None
    queue_offset: int | None


@dataclass(frozen=True, slots=True)
class Seen:
    """One message of the log."""

    record: Record

    @property
    def topic(self) -> str:
        """Return the topic it lies in."""
        return self.record.topic

    @property
    def message_id(self) -> str:
        """Return the producer's unique id, or the offset id where it gave none."""
        return self.record.message_id

    @property
    def offset_id(self) -> str:
        """Return RocketMQ's id of its place."""
        return offset_id(self.record.store_host, self.record.log_offset)

    @property
    def properties(self) -> Mapping[str, str]:
        """Return all properties, the product's own too."""
        return self.record.properties

    @property
    def tag(self) -> str:
        """Return the tag, empty without one."""
        return self.record.properties.get(names.TAGS, "")

    @property
    def keys(self) -> list[str]:
        """Return its keys."""
        return self.record.properties.get(names.KEYS, "").split()

    @property
    def role(self) -> Role:
        """Return what it is to the message it came from."""
        if self.topic == TRACE_TOPIC:
            return Role.TRACE
        if self.topic.startswith(DEAD_LETTER_PREFIX):
            return Role.DEAD_LETTER
        if self.topic.startswith(RETRY_PREFIX):
            return Role.RETRY
        return Role.RESENT if names.RESENT_AT_MS in self.properties else Role.ORIGIN

    @property
    def group(self) -> str | None:
        """Return the group whose retry or dead letter it is; None for any other message."""
        for prefix in (DEAD_LETTER_PREFIX, RETRY_PREFIX):
            if self.topic.startswith(prefix):
                return self.topic.removeprefix(prefix)
        return None

    @property
    def origin(self) -> Origin:
        """Return where it was first: its own place unless it is a copy."""
        said = self.properties
        if self.group is None:
            record = self.record
            return Origin(self.topic, self.message_id, record.queue, record.queue_offset)
        return Origin(
            topic=said.get(names.DLQ_ORIGIN_TOPIC) or said.get(names.RETRY_TOPIC) or self.topic,
            message_id=said.get(names.DLQ_ORIGIN_MESSAGE_ID)
            or said.get(names.ORIGIN_MESSAGE_ID)
            or self.message_id,
            queue=number_in(said, names.ORIGIN_QUEUE),
            queue_offset=number_in(said, names.ORIGIN_OFFSET),
        )

    @property
    def failures(self) -> list[Failure]:
        """Return its failed attempts, the oldest first; none where the record tells of none."""
        rows = history_of(self.properties.get(names.RETRY_HISTORY, ""))
        return [Failure(*row) for row in rows]

    @property
    def due_ms(self) -> int | None:
        """Return when a delayed message was to be delivered; None without a delay."""
        for name in (names.TIMER_OUT_MS, names.TIMER_DELIVER_MS):
            if name in self.properties:
                return number_in(self.properties, name)
        wait_ms = number_in(self.properties, names.TIMER_DELAY_MS)
        return None if wait_ms is None else self.record.born_time_ms + wait_ms


def number_in(said: Mapping[str, str], name: str) -> int | None:
    """Return a property that is a whole number; None for anything else."""
    text = said.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX):
        return None
    return int(text)
