"""What a consumer tells of its work, and how it is written (docs/FORMAT.md section 10).

Pure: knows messages, text and the clock it is given; no sockets and no threads.
"""

import json
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mqclient.clock import Clock
from mqclient.limits import KIB, MIB
from mqclient.wire.properties import (
    DELAY_MS,
    DELAYED_BY_LEVEL,
    DELIVER_AT_MS,
    DUE_MS,
    ORIGIN_OFFSET,
    ORIGIN_QUEUE,
)
from mqclient.wire.records import RETRY_PREFIX, Message

TRACE_TOPIC = "rmq_sys_trace"
TRACE_QUEUE = 0
VERSION = 1

RECORDS_MAX = 100
LINGER_S = 5.0
BUFFERED_MAX = 10_000

# Of a message's properties and body there must be room for the rest of them.
_KEYS_BYTES_MAX = 16 * KIB
_BODY_BYTES_MAX = 3 * MIB


class Ended(StrEnum):
    """How it ended that a consumer's code had a message."""

    OK = "ok"
    LATER = "later"
    """The code asked for another try."""
    ERROR = "error"
    TIMEOUT = "timeout"
    """The code was cut off, or did not settle the message in its time."""


class Mode(StrEnum):
    """How a group has its messages."""

    CONCURRENT = "concurrent"
    ORDERED = "ordered"
    BROADCAST = "broadcast"


@dataclass(frozen=True, slots=True)
class Work:
    """That a consumer's code had a message; times are wall ms."""

    message_id: str
    line: str
    """Its JSON, of ASCII alone."""


def work_of(
    message: Message,
    *,
    attempt: int,
    started_ms: int,
    ended_ms: int,
    result: Ended,
    error_class: str = "",
) -> Work:
    """Return what is told of one message. Its body is not kept."""
    properties = message.properties
    queue, offset = message.queue, message.queue_offset
    if message.stored_topic.startswith(RETRY_PREFIX):
        # One message is one place, however often it comes.
        queue = _number(properties, ORIGIN_QUEUE, queue)
        offset = _number(properties, ORIGIN_OFFSET, offset)
    message_id = message.message_id
    fields: dict[str, object] = {
        "topic": message.topic,
        "queue": queue,
        "offset": offset,
        "id": message_id,
        "attempt": attempt,
        "born_ms": message.born_time_ms,
        "stored_ms": message.store_time_ms,
        "started_ms": started_ms,
        "ended_ms": ended_ms,
        "result": result.value,
    }
    sharding_key = message.sharding_key
    if sharding_key is not None:
        fields["sharding_key"] = sharding_key
    due_ms = _due_ms(message)
    if due_ms is not None:
        fields["due_ms"] = due_ms
        level = _number(properties, DELAYED_BY_LEVEL, 0)
        if level:
            fields["level"] = level
    if error_class:
        fields["error"] = error_class
    return Work(message_id, json.dumps(fields, separators=(",", ":")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Teller:
    """Who tells: a consumer, and how its group has the messages."""

    group: str
    client_id: str
    mode: Mode | None
    """None where the caller alone knows."""


def body_of(teller: Teller, works: Sequence[Work]) -> bytes:
    """Return the body of a message that tells of some work."""
    fields: dict[str, object] = {
        "v": VERSION,
        "group": teller.group,
        "client": teller.client_id,
    }
    if teller.mode is not None:
        fields["mode"] = teller.mode.value
    head = json.dumps(fields, separators=(",", ":"))
    return f'{head[:-1]},"records":[{",".join(work.line for work in works)}]}}'.encode()


def keys_of(works: Iterable[Work]) -> list[str]:
    """Return the ids by which the message is found; those that are no words are left out."""
    return [key for key in dict.fromkeys(work.message_id for work in works) if _is_key(key)]


class TraceBuffer:
    """What is to be told, up to so much; what does not fit is counted. Any thread may call it."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._works: deque[Work] = deque()
        self._oldest_s = 0.0
        self._dropped_count = 0

    def add(self, works: Iterable[Work]) -> bool:
        """Keep what there is room for; say whether whoever sends should look."""
        with self._lock:
            count = len(self._works)
            for work in works:
                if len(self._works) < BUFFERED_MAX:
                    self._works.append(work)
                else:
                    self._dropped_count += 1
            if not count and self._works:
                self._oldest_s = self._clock.steady_s()
                return True
            return count < RECORDS_MAX <= len(self._works)

    def due_in_s(self) -> float | None:
        """Return in how many seconds a batch is due: 0 is now, None is nothing there."""
        with self._lock:
            if not self._works:
                return None
            if len(self._works) >= RECORDS_MAX:
                return 0.0
            return max(0.0, self._oldest_s + LINGER_S - self._clock.steady_s())

    def take(self) -> list[Work]:
        """Take the oldest, as many as make one message."""
        with self._lock:
            taken: list[Work] = []
            keys_bytes = body_bytes = 0
            while self._works and len(taken) < RECORDS_MAX:
                work = self._works[0]
                keys_bytes += len(work.message_id.encode()) + 1
                body_bytes += len(work.line) + 1
                is_over = keys_bytes > _KEYS_BYTES_MAX or body_bytes > _BODY_BYTES_MAX
                if is_over and taken:
                    break
                taken.append(self._works.popleft())
            self._oldest_s = self._clock.steady_s()
            return taken

    def drop(self, count: int) -> None:
        """Count work that cannot be told."""
        with self._lock:
            self._dropped_count += count

    @property
    def dropped_count(self) -> int:
        """Return how much could not be told up to now."""
        with self._lock:
            return self._dropped_count


def _is_key(text: str) -> bool:
    is_word = text.split() == [text] and "\x01" not in text and "\x02" not in text
    return is_word and len(text.encode()) <= _KEYS_BYTES_MAX


def _due_ms(message: Message) -> int | None:
    """Return when a message was to be delivered; None without a delay.

    One whose producer said how long, not when, was due so long after it was made.
    """
    properties = message.properties
    for name in (DUE_MS, DELIVER_AT_MS):
        if name in properties:
            return _number(properties, name, 0) or None
    if DELAY_MS in properties:
        return message.born_time_ms + _number(properties, DELAY_MS, 0)
    return None


def _number(properties: Mapping[str, str], name: str, other: int) -> int:
    """Return a property that is a number, else `other`: anybody may send any text."""
    text = properties.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else other
