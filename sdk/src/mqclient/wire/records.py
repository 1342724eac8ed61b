"""Records in the on-disk layout, packed and read. Knows bytes only (docs/FORMAT.md section 1).

offset  type      field                      offset  type      field
0       i32       total size                 48      u8[4],i32 born host, port
4       i32       magic                      56      i64       store time, ms    (broker)
8       i32       body CRC                   64      u8[4],i32 store host, port  (broker)
12      i32       queue id                   72      i32       reconsume times
16      i32       flag                       76      i64       prepared offset
20      i64       queue offset    (broker)   84      i32       body length, then the body
28      i64       physical offset (broker)           u8        topic length, then the topic
36      i32       system flag                        i16       properties length, then they
40      i64       born time, ms
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from mqclient.errors import CorruptMessage, MessageTooLarge, ProtocolViolation
from mqclient.limits import BODY_BYTES_MAX
from mqclient.values import FailedAttempt
from mqclient.wire.checksums import BODY_CRC_MASK, crc32
from mqclient.wire.properties import (
    KEYS,
    ORIGIN_MESSAGE_ID,
    ORIGIN_TOPIC,
    PRIORITY,
    RETRY_HISTORY,
    SHARDING_KEY,
    TAG,
    UNIQUE_KEY,
    unpack_properties,
)

# Topics in which failed messages of a group come again.
RETRY_PREFIX = "%RETRY%"
MAGIC = -626_843_481
FIXED_BYTES = 88
# Topic length and properties length.
SMALLEST_BYTES = FIXED_BYTES + 3

# Fields the broker sets, and those a producer leaves at zero, are padding.
_PACKED = struct.Struct(">iiiii20xq8s28xi")
_SHORT = struct.Struct(">H")
_CHECKED = struct.Struct(">iiii4xq56xi")
_LAZY = struct.Struct(">16xi8xqiq4siq4siiq4x")

assert MAGIC & 0xFFFFFFFF == 0xDAA320A7
assert _PACKED.size == _CHECKED.size == _LAZY.size == FIXED_BYTES


def topic_part(topic: str) -> bytes:
    """Return the topic with its length before it, as a record carries it."""
    encoded = topic.encode()
    return bytes((len(encoded),)) + encoded


def pack_record(
    topic: bytes,
    queue: int,
    body: bytes,
    properties: bytes,
    born_ms: int,
    born_host: bytes,
    flag: int = 0,
) -> bytes:
    """Return one record; `topic` as `topic_part` gives it, `born_host` of 8 bytes.

    Raise MessageTooLarge for a body over the limit.
    """
    body_bytes = len(body)
    if body_bytes > BODY_BYTES_MAX:
        raise MessageTooLarge(f"body is {body_bytes} bytes, at most {BODY_BYTES_MAX} allowed")
    fixed = _PACKED.pack(
        FIXED_BYTES + body_bytes + len(topic) + 2 + len(properties),
        MAGIC,
        crc32(body) & BODY_CRC_MASK,
        queue,
        flag,
        born_ms,
        born_host,
        body_bytes,
    )
    return b"".join((fixed, body, topic, _SHORT.pack(len(properties)), properties))


@dataclass(slots=True)
class Lease:
    """What the messages of one delivery share: the handle's token, the attempt, the deadline.

    `queue_offsets` are those of all its messages, ascending: a handle may name a run of them.
    """

    token: str
    attempt: int
    invisible_until_ms: int | None
    queue_offsets: list[int] = field(default_factory=list)


class Message:
    """One consumed message. Body and offset are at hand; the rest is decoded when asked for."""

    __slots__ = ("_fixed", "_properties", "_tail", "body", "lease", "queue", "queue_offset")

    def __init__(
        self,
        fixed: bytes,
        body: bytes,
        tail: bytes,
        queue: int,
        queue_offset: int,
        lease: Lease | None,
    ) -> None:
        self._fixed = fixed
        self._tail = tail
        self._properties: dict[str, str] | None = None
        self.body = body
        self.queue = queue
        self.queue_offset = queue_offset
        self.lease = lease

    def __repr__(self) -> str:
        return (
            f"<Message {self.topic}[{self.queue}]@{self.queue_offset}"
            f" {len(self.body)} bytes, id {self.message_id}>"
        )

    @property
    def topic(self) -> str:
        """Return the topic it was sent to, also where it comes again after a failure."""
        topic = self.stored_topic
        return self.properties.get(ORIGIN_TOPIC, topic) if topic.startswith(RETRY_PREFIX) else topic

    @property
    def stored_topic(self) -> str:
        """Return the topic it was read from; queue and offset are of that one."""
        return self._tail[1 : 1 + self._tail[0]].decode("utf-8", "replace")

    @property
    def origin_topic(self) -> str | None:
        """Return where a failed message lay first, also of a dead letter; None before a failure."""
        return self.properties.get(ORIGIN_TOPIC)

    @property
    def origin_message_id(self) -> str | None:
        """Return the id of the message that failed first; None before a failure."""
        return self.properties.get(ORIGIN_MESSAGE_ID)

    @property
    def failed_attempts(self) -> tuple[FailedAttempt, ...]:
        """Return the failures the broker has kept with the message, oldest first."""
        return _failed_attempts(self.properties.get(RETRY_HISTORY, "[]"))

    @property
    def properties(self) -> dict[str, str]:
        """Return all properties, the system's among them."""
        if self._properties is None:
            self._properties = unpack_properties(self._tail[self._tail[0] + 3 :])
        return self._properties

    @property
    def tag(self) -> str | None:
        """Return the tag, None without one."""
        return self.properties.get(TAG)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys, empty without any."""
        return tuple(self.properties.get(KEYS, "").split())

    @property
    def sharding_key(self) -> str | None:
        """Return the sharding key, None without one."""
        return self.properties.get(SHARDING_KEY)

    @property
    def priority(self) -> int | None:
        """Return the priority it was sent with, None without one."""
        text = self.properties.get(PRIORITY, "")
        return int(text) if text.isascii() and text.isdecimal() else None

    @property
    def message_id(self) -> str:
        """Return the producer's id, else the id of the place in the log."""
        unique_key = self.properties.get(UNIQUE_KEY)
        if unique_key:
            return unique_key
        fields = _LAZY.unpack(self._fixed)
        return f"{fields[7].hex()}{fields[8]:08x}{fields[1]:016x}".upper()

    @property
    def flag(self) -> int:
        """Return the user's flag."""
        return int(_LAZY.unpack(self._fixed)[0])

    @property
    def log_offset(self) -> int:
        """Return where the record lies in the broker's log."""
        return int(_LAZY.unpack(self._fixed)[1])

    @property
    def born_time_ms(self) -> int:
        """Return when the producer made the message."""
        return int(_LAZY.unpack(self._fixed)[3])

    @property
    def store_time_ms(self) -> int:
        """Return when the broker stored the message."""
        return int(_LAZY.unpack(self._fixed)[6])

    @property
    def reconsume_times(self) -> int:
        """Return how often the message was sent back."""
        return int(_LAZY.unpack(self._fixed)[9])

    @property
    def delivery_attempt(self) -> int | None:
        """Return 1 for the first delivery, failures before it included; None for a pulled one."""
        return None if self.lease is None else self.lease.attempt + self.reconsume_times

    @property
    def invisible_until_ms(self) -> int | None:
        """Return until when the message is this receiver's; None for a pulled message."""
        return None if self.lease is None else self.lease.invisible_until_ms

    @property
    def receipt_handle(self) -> str | None:
        """Return what settles the message; None for a pulled message."""
        return None if self.lease is None else f"{self.lease.token}:{self.queue_offset}"


def _failed_attempts(text: str) -> tuple[FailedAttempt, ...]:
    try:
        return tuple(
            FailedAttempt(number=int(number), at_ms=int(at_ms), reason=str(why), client_id=str(who))
            for number, at_ms, why, who in json.loads(text)
        )
    except (ValueError, TypeError):
        # Another broker may keep another history; messages are worth more than it.
        return ()


def unpack_records(
    payload: bytes, start: int, sizes: Sequence[int], lease: Lease | None = None
) -> list[Message]:
    """Return the messages that lie end to end from `start`, each with its body checked.

    Raise CorruptMessage for a body that is not what was produced, ProtocolViolation for bytes
    that are no record.
    """
    messages: list[Message] = []
    add = messages.append
    checked = _CHECKED.unpack_from
    for size in sizes:
        if size < SMALLEST_BYTES:
            raise ProtocolViolation(f"a record of {size} bytes is too short")
        total, magic, body_crc, queue, queue_offset, body_bytes = checked(payload, start)
        body_start = start + FIXED_BYTES
        body_end = body_start + body_bytes
        end = start + size
        if total != size or magic != MAGIC or not body_start <= body_end <= end - 3:
            raise ProtocolViolation(f"the bytes at {start} of the answer are no record")
        body = payload[body_start:body_end]
        if crc32(body) & BODY_CRC_MASK != body_crc:
            raise CorruptMessage(
                f"the body at queue offset {queue_offset} of queue {queue} is not what was sent",
                queue=queue,
                queue_offset=queue_offset,
            )
        fixed = payload[start:body_start]
        add(Message(fixed, body, payload[body_end:end], queue, queue_offset, lease))
        start = end
    return messages
