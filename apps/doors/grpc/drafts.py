"""One message of the protocol to one record, or the reason why not. Knows a message, no call.

What RocketMQ's broker refuses is refused with the same code; what it takes is taken.
"""

import hashlib
import re
import zlib
from dataclasses import dataclass

from google.protobuf.timestamp_pb2 import Timestamp

from apps.doors.grpc import groups
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.statuses import Illegal
from apps.doors.http.settings import DoorSettings
from apps.engine.codec import properties as names
from apps.engine.codec.layout import LITE_PROPERTY
from apps.engine.codec.litenames import lite_topic
from apps.engine.codec.tags import queue_of_key
from apps.engine.errors import MalformedBatch
from apps.engine.types import TopicSpec

USER_PROPERTIES_MAX = 128
PROPERTIES_BYTES_MAX = 16 * 1024
MESSAGE_GROUP_BYTES_MAX = 64
MESSAGE_ID_CHARACTERS_MAX = 255
# The last moment a record of the format can name in fifteen digits, in the year 33658.
_TIME_MS_MAX = 999_999_999_999_999
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CRC32 = re.compile(r"[0-9A-Fa-f]{1,8}")
_DIGESTS = {pb.MD5: hashlib.md5, pb.SHA1: hashlib.sha1}
_TYPES = {
    pb.NORMAL: "normal messages",
    pb.FIFO: "messages in order",
    pb.DELAY: "delayed messages",
    pb.TRANSACTION: "messages of transactions",
    pb.PRIORITY: "messages with a priority",
    pb.LITE: "messages of lite topics",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a record is made of; `queue` is None where the message leaves the choice to the door."""

    message_id: str
    tag: str
    queue: int | None
    body: bytes
    properties: bytes
    born_time_ms: int
    kind: pb.MessageType
    lite_name: str
    """The lite topic it is for; empty for the topic itself."""
    recovery_ms: int | None
    """When an orphaned transaction is asked about first; None is the store's own time."""

    @property
    def is_delayed(self) -> bool:
        """Say whether it waits for its time."""
        return self.kind == pb.DELAY


def draft_of(
    message: pb.Message, topic: TopicSpec, settings: DoorSettings, *, client_id: str, now_ms: int
) -> Draft:
    """Return a message as it will be stored; raise Illegal."""
    system = message.system_properties
    kind = _kind_of(message)
    if kind not in groups.accepted_types(topic):
        raise Illegal(
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"topic {topic.name} is of type {topic.type} and takes no {_TYPES[kind]}",
        )
    if kind == pb.LITE:
        lite_topic(topic.name, system.lite_topic)
    message_id = _message_id_of(system)
    properties = _properties_of(message, kind, client_id)
    properties[names.UNIQ_KEY] = message_id
    if kind == pb.DELAY:
        due_ms = time_ms(system.delivery_timestamp)
        if due_ms - now_ms > settings.delay_ms_max:
            raise Illegal(
                pb.ILLEGAL_DELIVERY_TIME, f"a message waits for at most {settings.delay_ms_max} ms"
            )
        properties[names.TIMER_DELIVER_MS] = str(max(due_ms, 0))
    recovery_ms = None
    if system.HasField("orphaned_transaction_recovery_duration"):
        recovery_ms = max(0, groups.ms_of(system.orphaned_transaction_recovery_duration))
    return Draft(
        message_id=message_id,
        tag=system.tag,
        queue=_queue_of(system, kind, topic.writable_count),
        body=_body_of(message, settings.body_bytes_max),
        properties=_encoded(properties),
        born_time_ms=time_ms(system.born_timestamp) or now_ms,
        kind=kind,
        lite_name=system.lite_topic if kind == pb.LITE else "",
        recovery_ms=recovery_ms,
    )


def time_ms(value: Timestamp) -> int:
    """Return a moment in milliseconds since 1970 UTC, 0 for one that was not given."""
    seconds: int = value.seconds
    nanos: int = value.nanos
    return min(seconds * 1000 + nanos // 1_000_000, _TIME_MS_MAX)


def _kind_of(message: pb.Message) -> pb.MessageType:
    """Return what a message is by its fields; raise Illegal where it says something else.

    Clients say it as well, but what is done goes by the fields, so they must agree.
    """
    system = message.system_properties
    if system.message_type == pb.LITE and not system.lite_topic:
        raise Illegal(pb.ILLEGAL_LITE_TOPIC, "the message names no lite topic")
    marks = [
        kind
        for kind, is_there in (
            (pb.FIFO, bool(system.message_group)),
            (pb.DELAY, system.HasField("delivery_timestamp")),
            (pb.PRIORITY, system.HasField("priority")),
            (pb.LITE, system.HasField("lite_topic")),
            (pb.TRANSACTION, system.message_type == pb.TRANSACTION),
        )
        if is_there
    ]
    if len(marks) > 1:
        raise Illegal(
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"one message cannot be among {' and '.join(_TYPES[kind] for kind in marks)}",
        )
    kind = marks[0] if marks else pb.NORMAL
    said = system.message_type
    if said == pb.NORMAL and kind == pb.PRIORITY and system.priority == 0:
        # Node writes a priority of 0, and takes it for none when it says what the message is.
        said = kind
    if said not in (pb.MESSAGE_TYPE_UNSPECIFIED, kind):
        lacks = _TYPES.get(said, "messages of an unknown type")
        raise Illegal(
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"the message says that it is among {lacks}, and lacks what those have",
        )
    return kind


def _message_id_of(system: pb.SystemProperties) -> str:
    message_id = system.message_id
    if not message_id or message_id.isspace():
        raise Illegal(pb.ILLEGAL_MESSAGE_ID, "a message needs an id")
    if len(message_id) > MESSAGE_ID_CHARACTERS_MAX or _CONTROL.search(message_id):
        raise Illegal(
            pb.ILLEGAL_MESSAGE_ID,
            f"a message id has at most {MESSAGE_ID_CHARACTERS_MAX} characters and no control ones",
        )
    return message_id


def _properties_of(message: pb.Message, kind: pb.MessageType, client_id: str) -> dict[str, str]:
    """Return all properties but the id and the time; raise Illegal for one that cannot be."""
    system = message.system_properties
    properties: dict[str, str] = {}
    if system.tag:
        properties[names.TAGS] = _tag(system.tag)
    if system.keys:
        properties[names.KEYS] = " ".join(_key(key) for key in system.keys)
    if system.message_group:
        properties[names.SHARDING_KEY] = _message_group(system.message_group)
    if kind == pb.PRIORITY:
        if system.priority < 0:
            raise Illegal(pb.BAD_REQUEST, "a priority is 0 or more")
        properties[names.PRIORITY] = str(system.priority)
    if kind == pb.LITE:
        properties[LITE_PROPERTY] = system.lite_topic
    if kind == pb.TRANSACTION:
        properties[names.PRODUCER_CLIENT] = client_id
    if system.trace_context:
        properties[names.TRACE_CONTEXT] = system.trace_context
    if system.born_host:
        properties[names.BORN_HOST] = system.born_host[:MESSAGE_ID_CHARACTERS_MAX]
    _check_user_properties(message, properties)
    properties.update(message.user_properties)
    return properties


def _check_user_properties(message: pb.Message, others: dict[str, str]) -> None:
    if len(message.user_properties) > USER_PROPERTIES_MAX:
        raise Illegal(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"a message has at most {USER_PROPERTIES_MAX} properties",
        )
    for name, value in message.user_properties.items():
        if name in names.RESERVED:
            raise Illegal(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property name {name} is reserved")
        if not name or _CONTROL.search(name) or "\x01" in value or "\x02" in value:
            raise Illegal(
                pb.ILLEGAL_MESSAGE_PROPERTY_KEY,
                "a property's name must not be empty or have control characters, nor its value "
                "U+0001 or U+0002",
            )
    size_bytes = sum(
        len(name.encode()) + len(value.encode())
        for properties in (message.user_properties, others)
        for name, value in properties.items()
    )
    if size_bytes > PROPERTIES_BYTES_MAX:
        raise Illegal(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, tag and keys together take at most {PROPERTIES_BYTES_MAX} bytes",
        )


def _encoded(properties: dict[str, str]) -> bytes:
    try:
        return names.encode_properties(properties)
    except MalformedBatch as error:
        raise Illegal(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, str(error)) from error


def _tag(tag: str) -> str:
    if "|" in tag or _CONTROL.search(tag) or tag.isspace() or tag != tag.strip() or tag == "*":
        raise Illegal(
            pb.ILLEGAL_MESSAGE_TAG,
            "a tag must not be '*', hold '|' or control characters, or start or end with a blank",
        )
    return tag


def _key(key: str) -> str:
    # One with blanks comes back as several: RocketMQ keeps them so as well.
    if not key or key.isspace() or _CONTROL.search(key):
        raise Illegal(pb.ILLEGAL_MESSAGE_KEY, "a key must not be empty or have control characters")
    return key


def _message_group(text: str) -> str:
    if len(text.encode()) > MESSAGE_GROUP_BYTES_MAX or text.isspace() or _CONTROL.search(text):
        raise Illegal(
            pb.ILLEGAL_MESSAGE_GROUP,
            f"a message group is at most {MESSAGE_GROUP_BYTES_MAX} bytes, not blank, and has no "
            "control characters",
        )
    return text


def _queue_of(system: pb.SystemProperties, kind: pb.MessageType, queue_count: int) -> int | None:
    """Return the queue a message must go to.

    Clients choose one by hashes of their own, which differ; the queue they name means nothing.
    """
    if kind == pb.FIFO:
        return queue_of_key(system.message_group, queue_count)
    if kind == pb.PRIORITY:
        return min(system.priority, queue_count - 1)
    if kind == pb.LITE:
        # A lite topic has one queue.
        return 0
    return None


def _body_of(message: pb.Message, bytes_max: int) -> bytes:
    """Return the body as its sender had it; raise Illegal for one that is damaged or too large.

    It is kept decompressed: not every client can read what another has compressed.
    """
    system = message.system_properties
    body = message.body
    if len(body) > bytes_max:
        raise _too_large(bytes_max)
    if system.HasField("body_digest") and not _is_digest_of(system.body_digest, body):
        raise Illegal(pb.MESSAGE_CORRUPTED, "the body does not have the digest it was sent with")
    if system.body_encoding != pb.GZIP:
        return body
    # Some clients say gzip and send zlib's form; each begins in its own way.
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        unpacked = unpacking.decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise Illegal(pb.MESSAGE_CORRUPTED, "the body is not compressed as it says") from error
    if len(unpacked) > bytes_max:
        raise _too_large(bytes_max)
    if not unpacking.eof:
        raise Illegal(pb.MESSAGE_CORRUPTED, "the compressed body ends early")
    return unpacked


def _too_large(bytes_max: int) -> Illegal:
    return Illegal(pb.MESSAGE_BODY_TOO_LARGE, f"the body is longer than {bytes_max} bytes")


def _is_digest_of(digest: pb.Digest, body: bytes) -> bool:
    if digest.type == pb.CRC32:
        # Clients write it with zeros in front or without.
        text = digest.checksum
        return _CRC32.fullmatch(text) is not None and int(text, 16) == zlib.crc32(body)
    algorithm = _DIGESTS.get(digest.type)
    # One that cannot be checked is none.
    return algorithm is None or algorithm(body).hexdigest() == digest.checksum.lower()
