"""Records to messages of the protocol. Knows one record's values; asks nothing of the engine."""

import hashlib

from google.protobuf.timestamp_pb2 import Timestamp

from apps.doors.grpc import groups
from apps.doors.grpc.names import is_dead_letters, resource_of
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.engine.codec import properties as names
from apps.engine.codec.layout import RETRY_PREFIX
from apps.engine.codec.litenames import is_lite, lite_parts
from apps.engine.codec.record import Record

_INT32_MAX = 2**31 - 1
_DIGITS_MAX = 15


def message_of(record: Record, namespace: str) -> pb.Message:
    """Return a record as clients are given it, without a receipt.

    Body, digest and encoding are always there: some clients fail at a message without one.
    """
    properties = record.properties
    system = pb.SystemProperties(
        keys=properties.get(names.KEYS, "").split(),
        message_id=record.message_id,
        body_digest=digest_of(record.body),
        body_encoding=pb.IDENTITY,
        message_type=_kind_of(properties),
        born_timestamp=timestamp(record.born_time_ms),
        born_host=properties.get(names.BORN_HOST) or host_text(record.born_host),
        store_timestamp=timestamp(record.store_time_ms),
        store_host=host_text(record.store_host),
        queue_id=record.queue,
        queue_offset=record.queue_offset,
    )
    if names.TAGS in properties:
        system.tag = properties[names.TAGS]
    if names.SHARDING_KEY in properties:
        system.message_group = properties[names.SHARDING_KEY]
    if names.TRACE_CONTEXT in properties:
        system.trace_context = properties[names.TRACE_CONTEXT]
    priority = _number(properties, names.PRIORITY)
    if priority is not None:
        system.priority = min(priority, _INT32_MAX)
    due_ms = _number(properties, names.TIMER_DELIVER_MS) or _number(properties, names.TIMER_OUT_MS)
    if due_ms:
        system.delivery_timestamp.CopyFrom(timestamp(due_ms))
    topic = record.topic
    origin = properties.get(names.DLQ_ORIGIN_TOPIC) or properties.get(names.RETRY_TOPIC)
    lite = lite_parts(topic) or lite_parts(origin or "")
    if lite is not None:
        # It is a message of the parent to whoever subscribed to its lite topic.
        system.message_type = pb.LITE
        system.lite_topic = lite[1]
        topic, origin = (lite[0], origin) if is_lite(topic) else (topic, lite[0])
    if is_dead_letters(topic):
        system.dead_letter_queue.CopyFrom(
            pb.DeadLetterQueue(
                topic=origin or "",
                message_id=properties.get(names.DLQ_ORIGIN_MESSAGE_ID) or record.message_id,
            )
        )
    elif topic.startswith(RETRY_PREFIX) and origin:
        # What comes again is still a message of its topic to whoever subscribed to that.
        topic = origin
    return pb.Message(
        topic=resource_of(topic, namespace),
        user_properties={
            name: value for name, value in properties.items() if name not in names.RESERVED
        },
        system_properties=system,
        body=record.body,
    )


def hand_out(
    message: pb.Message, record: Record, *, handle: str, attempt: int, invisible_ms: int
) -> pb.Message:
    """Add to a message what its receiver settles it by."""
    system = message.system_properties
    system.receipt_handle = handle
    system.delivery_attempt = record.reconsume_times + attempt
    system.invisible_duration.CopyFrom(groups.duration(invisible_ms))
    return message


def digest_of(body: bytes) -> pb.Digest:
    """Return the digest of a body that all clients write in the same way."""
    return pb.Digest(
        type=pb.MD5, checksum=hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    )


def timestamp(time_ms: int) -> Timestamp:
    """Return a moment as the protocol writes it; what was before 1970 is the beginning."""
    time_ms = max(time_ms, 0)
    return Timestamp(seconds=time_ms // 1000, nanos=time_ms % 1000 * 1_000_000)


def host_text(host: bytes) -> str:
    """Return address and port of a record as text."""
    return f"{'.'.join(map(str, host[:4]))}:{int.from_bytes(host[4:], 'big')}"


def _kind_of(properties: dict[str, str]) -> pb.MessageType:
    if names.TRAN_MSG in properties:
        return pb.TRANSACTION
    if names.SHARDING_KEY in properties:
        return pb.FIFO
    if names.PRIORITY in properties:
        return pb.PRIORITY
    if not properties.keys().isdisjoint((names.TIMER_DELIVER_MS, names.TIMER_OUT_MS, names.DELAY)):
        return pb.DELAY
    return pb.NORMAL


def _number(properties: dict[str, str], name: str) -> int | None:
    """Return a property that is a number; None for none. Somebody's binary batch may have any."""
    text = properties.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else None
