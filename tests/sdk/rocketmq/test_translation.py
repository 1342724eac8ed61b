"""What a message is survives the way there and back; what became of it does not travel."""

import gzip
import hashlib
import zlib

import pytest
from mqclient import CorruptMessage, InvalidName, Message, OutgoingMessage
from mqclient.rocketmq.protos import rocketmq_pb2 as pb
from mqclient.rocketmq.translation import message_here, message_there
from mqclient.wire.properties import PRIORITY, pack_properties, with_unique_key
from mqclient.wire.records import pack_record, topic_part, unpack_records

ID = "01ABCDEF0123456789ABCDEF0123456789"
TOPIC = pb.Resource(name="there", resource_namespace="east")
HOSTILE = {"a b": "c=d", "emoji": "\U0001f600\u202e", "quote": "\"'<script>"}


def consumed(
    *,
    topic: str = "here",
    sharding_key: str | None = None,
    tag: str | None = None,
    keys: tuple[str, ...] = (),
    priority: int | None = None,
) -> Message:
    section = pack_properties(
        tag=tag, keys=keys, sharding_key=sharding_key, properties=HOSTILE,
        system={} if priority is None else {PRIORITY: str(priority)},
    )  # fmt: skip
    record = pack_record(
        topic_part(topic), 3, b"\x00body\xff", with_unique_key(section, ID.encode()),
        1_700_000_000_123, bytes(8),
    )  # fmt: skip
    (message,) = unpack_records(record, 0, [len(record)])
    return message


@pytest.mark.parametrize("sharding_key", [None, "red"])
@pytest.mark.parametrize(("tag", "keys"), [(None, ()), ("T", ("k1", "k2"))])
def test_a_message_is_the_same_after_the_way_there_and_back(
    sharding_key: str | None, tag: str | None, keys: tuple[str, ...]
) -> None:
    message = consumed(sharding_key=sharding_key, tag=tag, keys=keys)

    there = message_there(message, TOPIC, "host")
    back = message_here(there, "copy")

    assert back == OutgoingMessage(
        topic="copy",
        body=message.body,
        tag=tag,
        keys=keys,
        properties=HOSTILE,
        sharding_key=sharding_key,
        message_id=ID,
        born_time_ms=1_700_000_000_123,
    )
    assert there.system_properties.message_type == (pb.NORMAL if sharding_key is None else pb.FIFO)


@pytest.mark.parametrize("priority", [0, 7])
def test_a_priority_survives_the_way_there_and_back(priority: int) -> None:
    there = message_there(consumed(priority=priority), TOPIC, "host")

    assert there.system_properties.message_type == pb.PRIORITY
    assert there.system_properties.priority == priority
    assert message_here(there, "copy").priority == priority
    assert dict(there.user_properties) == HOSTILE


def test_a_message_of_a_lite_topic_is_of_the_same_one_there_and_back() -> None:
    """Nothing is of two kinds there, and the order of a lite topic is that of its keys as well."""
    message = consumed(topic="%LITE%in|box|ann", sharding_key="red", priority=7)

    there = message_there(message, TOPIC, "host")
    back = message_here(there, "copy")

    system = there.system_properties
    assert (there.topic, system.message_type, system.lite_topic) == (TOPIC, pb.LITE, "ann")
    assert not system.HasField("message_group")
    assert not system.HasField("priority")
    assert (back.topic, back.sharding_key, back.priority) == ("%LITE%copy|ann", None, None)
    assert (back.message_id, back.properties) == (ID, HOSTILE)


def test_a_lite_topic_that_no_topic_can_have_is_refused() -> None:
    there = message_there(consumed(topic="%LITE%inbox|ann"), TOPIC, "host")

    with pytest.raises(InvalidName):
        message_here(there, "p" * 120)


@pytest.mark.parametrize(
    ("is_ranked", "kind", "priority"), [(True, pb.PRIORITY, 3), (False, pb.NORMAL, None)]
)
def test_a_queue_is_a_priority_only_in_a_topic_of_priorities(
    is_ranked: bool, kind: pb.MessageType, priority: int | None
) -> None:
    there = message_there(consumed(), TOPIC, "host", is_ranked=is_ranked)

    assert there.system_properties.message_type == kind
    assert message_here(there, "copy").priority == priority


def test_what_has_a_message_group_too_keeps_that_and_no_priority() -> None:
    message = consumed(sharding_key="red", priority=7)

    there = message_there(message, TOPIC, "host", is_ranked=True)

    assert there.system_properties.message_type == pb.FIFO
    assert not there.system_properties.HasField("priority")
    there.system_properties.priority = 7
    here = message_here(there, "copy")
    assert (here.sharding_key, here.priority) == ("red", None)


def received(body: bytes, encoding: pb.Encoding, digest: pb.Digest | None) -> pb.Message:
    system = pb.SystemProperties(message_id=ID, body_encoding=encoding, body_digest=digest)
    return pb.Message(topic=TOPIC, system_properties=system, body=body)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
def test_a_packed_body_is_stored_unpacked(pack: object) -> None:
    packed = pack(b"text" * 1000)  # type: ignore[operator]

    assert message_here(received(packed, pb.GZIP, None), "copy").body == b"text" * 1000


def test_a_packed_body_that_is_cut_short_is_refused() -> None:
    with pytest.raises(CorruptMessage):
        message_here(received(gzip.compress(b"text")[:-3], pb.GZIP, None), "copy")


@pytest.mark.parametrize(
    ("kind", "checksum"),
    [
        (pb.MD5, hashlib.md5(b"text").hexdigest().upper()),
        (pb.SHA1, hashlib.sha1(b"text").hexdigest()),
        (pb.CRC32, f"{zlib.crc32(b'text'):X}"),
        (pb.CRC32, f"{zlib.crc32(b'text'):010x}"),
    ],
)
def test_a_digest_is_compared_however_it_is_written(kind: pb.DigestType, checksum: str) -> None:
    digest = pb.Digest(type=kind, checksum=checksum)

    assert message_here(received(b"text", pb.IDENTITY, digest), "copy").body == b"text"
    with pytest.raises(CorruptMessage):
        message_here(received(b"tex", pb.IDENTITY, digest), "copy")
