"""A message here to a message there, and back. Knows both shapes, no requests.

What a message is keeps: id, body, tag, keys, properties, lite topic, message group, priority, time
of birth. What became of it does not: queue, offset, attempts. A message that is there to be read is
no longer delayed and no longer half of a transaction, so it is a normal one, one in order, one with
a priority, or one of a lite topic.
"""

import gzip
import hashlib
import zlib
from collections.abc import Mapping

from google.protobuf.timestamp_pb2 import Timestamp

from mqclient.errors import CorruptMessage
from mqclient.names import lite_parts, lite_topic
from mqclient.rocketmq.protos import rocketmq_pb2 as pb
from mqclient.values import OutgoingMessage
from mqclient.wire.properties import RESERVED
from mqclient.wire.records import Message

# What RocketMQ's broker keeps among the properties, and so refuses from a client.
_KEPT_THERE = frozenset(
    """
    KEYS TAGS WAIT DELAY BUYER_ID INSTANCE_ID UNIQ_KEY EXTEND_UNIQ_INFO CLUSTER MSG_REGION TRACE_ON
    __SHARDINGKEY __BORNHOST BORN_TIMESTAMP PGROUP RECONSUME_TIME MAX_RECONSUME_TIMES
    CONSUME_START_TIME MIN_OFFSET MAX_OFFSET TRANSACTION_CHECK_TIMES TRAN_PREPARED_QUEUE_OFFSET
    CHECK_IMMUNITY_TIME_IN_SECONDS CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME
    MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES
    TIMER_DEL_UNIQKEY INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET INNER_NUM INNER_BASE DUP_INFO
    TRACE_CONTEXT PROPERTY_FORWARD_QUEUE_ID REDIRECT TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG __CRC32#
    PRODUCER_CLIENT LOST_PROPERTIES RESENT_BY RESENT_AT_MS _SYS_MSG_PRIORITY_ __LITE_TOPIC
    """.split()
)

# A body that unpacks to more is none of ours, and may be there to fill the memory.
_BODY_BYTES_MAX = 64 * 1024 * 1024
_PRIORITY_MAX = 2**31 - 1


def message_there(
    message: Message, topic: pb.Resource, born_host: str, *, is_ranked: bool = False
) -> pb.Message:
    """Return a consumed message as the protocol carries it.

    `is_ranked` is for one of a topic of priorities: one that names none has that of its queue.
    """
    system = pb.SystemProperties(
        keys=message.keys,
        message_id=message.message_id,
        body_encoding=pb.IDENTITY,
        message_type=pb.NORMAL,
        born_timestamp=_moment(message.born_time_ms),
        born_host=born_host,
    )
    if message.tag is not None:
        system.tag = message.tag
    _mark(system, message, is_ranked=is_ranked)
    return pb.Message(
        topic=topic,
        user_properties=users_own(message.properties),
        system_properties=system,
        body=message.body,
    )


def _mark(system: pb.SystemProperties, message: Message, *, is_ranked: bool) -> None:
    """Say what kind of message it is.

    No message is of two kinds there. Order is what more depends on than a priority, and a lite
    topic is in order as it is.
    """
    lite = lite_parts(message.topic)
    priority = message.queue if message.priority is None and is_ranked else message.priority
    if lite is not None:
        system.message_type = pb.LITE
        system.lite_topic = lite[1]
    elif message.sharding_key is not None:
        system.message_type = pb.FIFO
        system.message_group = message.sharding_key
    elif priority is not None:
        system.message_type = pb.PRIORITY
        system.priority = min(priority, _PRIORITY_MAX)


def users_own(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that an application gave a message, without the brokers' own."""
    kept = RESERVED | _KEPT_THERE
    return {name: value for name, value in properties.items() if name not in kept}


def message_here(message: pb.Message, topic: str) -> OutgoingMessage:
    """Return a received message as a producer takes it; raise CorruptMessage.

    One of a lite topic goes to that of `topic` which has its name; InvalidName says that none can.
    """
    system = message.system_properties
    born = system.born_timestamp
    has_priority = system.HasField("priority") and not system.message_group
    return OutgoingMessage(
        topic=lite_topic(topic, system.lite_topic) if system.lite_topic else topic,
        body=_body_of(message),
        tag=system.tag or None,
        keys=tuple(key for text in system.keys for key in text.split()),
        # Apache's server hands out its own properties among them.
        properties=users_own(message.user_properties),
        sharding_key=system.message_group or None,
        priority=max(system.priority, 0) if has_priority else None,
        message_id=system.message_id or None,
        born_time_ms=born.seconds * 1000 + born.nanos // 1_000_000 if born.seconds else None,
    )


def _body_of(message: pb.Message) -> bytes:
    system = message.system_properties
    if not _is_whole(message.body, system.body_digest):
        raise _corrupt(system, "the body is not what its digest says")
    if system.body_encoding != pb.GZIP:
        return message.body
    try:
        return _unpacked(message.body)
    except (OSError, zlib.error) as error:
        raise _corrupt(system, "the body is no gzip") from error


def _corrupt(system: pb.SystemProperties, why: str) -> CorruptMessage:
    return CorruptMessage(
        f"message {system.message_id}: {why}",
        queue=system.queue_id,
        queue_offset=system.queue_offset,
    )


def _unpacked(body: bytes) -> bytes:
    # Clients in C++ write zlib's own format under the same name.
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
    found = unpack.decompress(body, _BODY_BYTES_MAX)
    if not unpack.eof:
        raise gzip.BadGzipFile("cut short, or too large")
    return found


def _is_whole(body: bytes, digest: pb.Digest) -> bool:
    if digest.type == pb.MD5:
        return (
            digest.checksum.upper() == hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
        )
    if digest.type == pb.SHA1:
        return (
            digest.checksum.upper() == hashlib.sha1(body, usedforsecurity=False).hexdigest().upper()
        )
    if digest.type == pb.CRC32:
        # Some writers leave out leading zeros.
        return digest.checksum.lstrip("0").upper() == f"{zlib.crc32(body):X}".lstrip("0")
    return True


def _moment(time_ms: int) -> Timestamp:
    return Timestamp(seconds=time_ms // 1000, nanos=time_ms % 1000 * 1_000_000)
