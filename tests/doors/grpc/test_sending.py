"""SendMessage: what is kept of a message, what is refused and how, and which queue it goes to."""

import gzip
import hashlib
import zlib
from typing import Any

import pytest

from apps.doors.grpc import drafts
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.engine.codec.properties import RESERVED
from apps.engine.codec.tags import queue_of_key
from apps.engine.limits import BODY_BYTES_MAX, MIB
from apps.engine.testing.manualclock import ManualClock
from tests.doors.grpc.client import GrpcClient, a_message, a_receive, bodies

HOSTILE = "<script>'\"\\%s{{}}\u202e\U0001f4a5 "


async def status_of(client: GrpcClient, *messages: pb.Message) -> int:
    answer = await client.send(*messages)
    return answer.status.code


async def test_the_clients_own_id_is_kept_and_answered(client: GrpcClient) -> None:
    answer = await client.send(a_message(message_id="01ABCDEF"))
    (found,) = await client.received()

    assert (answer.status.code, len(answer.entries)) == (pb.OK, 1)
    assert (answer.entries[0].status.code, answer.entries[0].message_id) == (pb.OK, "01ABCDEF")
    assert found.system_properties.message_id == "01ABCDEF"


async def test_a_message_comes_as_it_was_sent(client: GrpcClient, clock: ManualClock) -> None:
    user_properties = {"colour": HOSTILE, "größe": "ü", "empty": ""}

    await client.send(
        a_message(
            b"\x00\xff body",
            tag="T<1>",
            keys=["k1", "k2"],
            born_timestamp={"seconds": 1_600_000_000, "nanos": 123_000_000},
            born_host="laptop-7",
            trace_context="00-abc-def-01",
            user_properties=user_properties,
        )
    )
    (found,) = await client.received()
    system = found.system_properties

    assert found.body == b"\x00\xff body"
    assert dict(found.user_properties) == user_properties
    assert (system.tag, list(system.keys)) == ("T<1>", ["k1", "k2"])
    assert (system.born_host, system.trace_context) == ("laptop-7", "00-abc-def-01")
    assert (system.born_timestamp.seconds, system.born_timestamp.nanos) == (
        1_600_000_000,
        123_000_000,
    )
    assert system.store_timestamp.seconds == clock.wall_ms() // 1000
    assert system.message_type == pb.NORMAL
    assert system.delivery_attempt == 1


async def test_every_delivery_has_a_digest_and_an_encoding(client: GrpcClient) -> None:
    """Node throws on a message without a digest, and Python on one without an encoding."""
    await client.send(a_message(b"body"))

    (found,) = await client.received()

    assert found.system_properties.body_encoding == pb.IDENTITY
    assert found.system_properties.body_digest.type == pb.MD5
    assert found.system_properties.body_digest.checksum == hashlib.md5(b"body").hexdigest().upper()


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
async def test_a_compressed_body_is_delivered_as_it_was(client: GrpcClient, compress: Any) -> None:
    """C++ says gzip and sends zlib's form, which Node could not read."""
    await client.send(a_message(compress(b"body" * 1000), body_encoding=pb.GZIP))

    (found,) = await client.received()

    assert found.body == b"body" * 1000
    assert found.system_properties.body_encoding == pb.IDENTITY


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"not compressed", pb.MESSAGE_CORRUPTED),
        (gzip.compress(b"body" * 1000)[:-9], pb.MESSAGE_CORRUPTED),
        (gzip.compress(bytes(BODY_BYTES_MAX + 1)), pb.MESSAGE_BODY_TOO_LARGE),
    ],
    ids=["no gzip", "cut off", "a bomb"],
)
async def test_a_compressed_body_that_is_none_is_refused(
    client: GrpcClient, body: bytes, code: int
) -> None:
    assert await status_of(client, a_message(body, body_encoding=pb.GZIP)) == code


@pytest.mark.parametrize(
    ("kind", "checksum", "is_good"),
    [
        (pb.MD5, hashlib.md5(b"body").hexdigest(), True),
        (pb.MD5, hashlib.md5(b"body").hexdigest().upper(), True),
        (pb.MD5, hashlib.md5(b"other").hexdigest(), False),
        (pb.SHA1, hashlib.sha1(b"body").hexdigest(), True),
        (pb.SHA1, "", False),
        (pb.CRC32, f"{zlib.crc32(b'body'):X}", True),
        (pb.CRC32, f"{zlib.crc32(b'body'):08x}", True),
        (pb.CRC32, "no number", False),
    ],
)
async def test_a_digest_is_checked(
    client: GrpcClient, kind: pb.DigestType, checksum: str, is_good: bool
) -> None:
    message = a_message(b"body", body_digest=pb.Digest(type=kind, checksum=checksum))

    assert await status_of(client, message) == (pb.OK if is_good else pb.MESSAGE_CORRUPTED)


async def test_the_largest_body_is_taken_and_a_byte_more_is_not(client: GrpcClient) -> None:
    assert await status_of(client, a_message(bytes(4 * MIB))) == pb.OK
    assert await status_of(client, a_message(bytes(4 * MIB + 1))) == pb.MESSAGE_BODY_TOO_LARGE


async def test_as_many_properties_as_may_be_are_taken_and_one_more_is_not(
    client: GrpcClient,
) -> None:
    most = {f"p{number}": "v" for number in range(128)}

    assert await status_of(client, a_message(user_properties=most)) == pb.OK
    assert (
        await status_of(client, a_message(user_properties={**most, "more": "v"}))
        == pb.MESSAGE_PROPERTIES_TOO_LARGE
    )


async def test_properties_tag_and_keys_take_sixteen_kibibytes_together(client: GrpcClient) -> None:
    names_bytes = len("TAGS") + len("t") + len("KEYS") + len("k") + len("name")
    room = drafts.PROPERTIES_BYTES_MAX - names_bytes

    def message(size_bytes: int) -> pb.Message:
        return a_message(tag="t", keys=["k"], user_properties={"name": "v" * size_bytes})

    assert await status_of(client, message(room)) == pb.OK
    assert await status_of(client, message(room + 1)) == pb.MESSAGE_PROPERTIES_TOO_LARGE


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"tag": "a|b"}, pb.ILLEGAL_MESSAGE_TAG),
        ({"tag": "a\tb"}, pb.ILLEGAL_MESSAGE_TAG),
        ({"tag": "*"}, pb.ILLEGAL_MESSAGE_TAG),
        ({"tag": " "}, pb.ILLEGAL_MESSAGE_TAG),
        ({"keys": ["a\x00"]}, pb.ILLEGAL_MESSAGE_KEY),
        ({"keys": [""]}, pb.ILLEGAL_MESSAGE_KEY),
        ({"message_group": "g" * 65, "message_type": pb.FIFO}, pb.ILLEGAL_MESSAGE_GROUP),
        ({"message_group": "ü" * 33, "message_type": pb.FIFO}, pb.ILLEGAL_MESSAGE_GROUP),
        ({"message_group": "a\nb", "message_type": pb.FIFO}, pb.ILLEGAL_MESSAGE_GROUP),
        ({"message_id": ""}, pb.ILLEGAL_MESSAGE_ID),
        ({"message_id": " "}, pb.ILLEGAL_MESSAGE_ID),
        ({"message_id": "a\x01b"}, pb.ILLEGAL_MESSAGE_ID),
        ({"user_properties": {"": "v"}}, pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"user_properties": {"a\x01b": "v"}}, pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"user_properties": {"a": "v\x02"}}, pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"message_type": pb.LITE}, pb.ILLEGAL_LITE_TOPIC),
        ({"priority": -1, "message_type": pb.PRIORITY}, pb.BAD_REQUEST),
    ],
)
async def test_what_cannot_be_is_refused_by_its_own_code(
    client: GrpcClient, values: dict[str, Any], code: int
) -> None:
    assert await status_of(client, a_message(**values)) == code
    assert await client.received() == []


@pytest.mark.parametrize("name", sorted(RESERVED))
async def test_a_reserved_property_is_refused(client: GrpcClient, name: str) -> None:
    message = a_message(user_properties={name: "v"})

    assert await status_of(client, message) == pb.ILLEGAL_MESSAGE_PROPERTY_KEY


async def test_a_key_with_blanks_comes_back_as_several(client: GrpcClient) -> None:
    """RocketMQ joins keys with blanks as well, so applications that do this know it so."""
    await client.send(a_message(keys=["a b", "c"]))

    (found,) = await client.received()

    assert list(found.system_properties.keys) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("topic", "values", "is_taken"),
    [
        ("normal", {}, True),
        ("normal", {"message_group": "g", "message_type": pb.FIFO}, False),
        ("normal", {"delivery_timestamp": {"seconds": 1}, "message_type": pb.DELAY}, False),
        ("normal", {"message_type": pb.TRANSACTION}, False),
        ("in-order", {}, False),
        ("in-order", {"message_group": "g", "message_type": pb.FIFO}, True),
        ("later", {"delivery_timestamp": {"seconds": 1}, "message_type": pb.DELAY}, True),
        ("later", {}, False),
        ("both", {"message_type": pb.TRANSACTION}, True),
        ("both", {}, False),
        ("orders", {"message_group": "g", "message_type": pb.NORMAL}, False),
        ("orders", {"message_type": pb.FIFO}, False),
        ("orders", {"message_group": "g", "delivery_timestamp": {"seconds": 1}}, False),
        ("orders", {"message_group": "g", "message_type": pb.TRANSACTION}, False),
        ("urgent", {"priority": 7, "message_type": pb.PRIORITY}, True),
        ("urgent", {"priority": 0, "message_type": pb.NORMAL}, True),
        ("urgent", {}, False),
        ("normal", {"priority": 7, "message_type": pb.PRIORITY}, False),
        # Node says so of the lowest priority.
        ("orders", {"priority": 0, "message_type": pb.NORMAL}, True),
        ("orders", {"priority": 1, "message_type": pb.NORMAL}, False),
        # What does not say what it is, is what its fields make it.
        ("orders", {"message_group": "g", "message_type": 0}, True),
    ],
)
async def test_a_topic_takes_messages_of_its_type(
    client: GrpcClient, topic: str, values: dict[str, Any], is_taken: bool
) -> None:
    message = a_message(topic=pb.Resource(name=topic), **values)

    expected = pb.OK if is_taken else pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert await status_of(client, message) == expected


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("nope", pb.TOPIC_NOT_FOUND),
        ("closed", pb.FORBIDDEN),
        ("", pb.ILLEGAL_TOPIC),
        ("a/b", pb.ILLEGAL_TOPIC),
        ("a" * 128, pb.ILLEGAL_TOPIC),
        ("%RETRY%g", pb.ILLEGAL_TOPIC),
        ("%DLQ%g", pb.ILLEGAL_TOPIC),
        ("rmq_sys_wheel_timer", pb.ILLEGAL_TOPIC),
        ("RMQ_SYS_TRANS_HALF_TOPIC", pb.ILLEGAL_TOPIC),
    ],
)
async def test_a_topic_that_takes_nothing_is_refused(
    client: GrpcClient, topic: str, code: int
) -> None:
    assert await status_of(client, a_message(topic=pb.Resource(name=topic))) == code


async def test_a_request_is_for_one_topic_and_has_a_message(client: GrpcClient) -> None:
    other = a_message(topic=pb.Resource(name="normal"))

    assert await status_of(client) == pb.MESSAGE_CORRUPTED
    assert await status_of(client, a_message(), other) == pb.MESSAGE_CORRUPTED


async def test_many_messages_have_as_many_entries_in_order(client: GrpcClient) -> None:
    sent = [a_message(b"%d" % n, message_id=f"id-{n}") for n in range(10)]
    sent[3].system_properties.message_type = pb.DELAY
    sent[3].system_properties.delivery_timestamp.seconds = 1_900_000_000
    sent[5].system_properties.message_type = pb.FIFO
    sent[5].system_properties.message_group = "g"
    # Six years ahead is more than a message may wait.
    assert (await client.send(*sent)).status.code == pb.ILLEGAL_DELIVERY_TIME

    sent[3].system_properties.delivery_timestamp.seconds = 1_700_000_600
    answer = await client.send(*sent)

    assert [entry.message_id for entry in answer.entries] == [f"id-{n}" for n in range(10)]
    assert [bool(entry.recall_handle) for entry in answer.entries].index(True) == 3
    assert sorted(bodies(await client.received())) == [b"%d" % n for n in range(10) if n != 3]


async def test_messages_of_a_group_go_to_one_queue_whatever_the_client_says(
    client: GrpcClient,
) -> None:
    """Clients hash groups each in their own way; the server's is that of sharding keys."""
    for number in range(6):
        name = f"group-{number % 3}"
        await client.send(
            a_message(b"%d" % number, message_group=name, message_type=pb.FIFO, queue_id=number)
        )

    found = await client.received()

    assert len(found) == 6
    for message in found:
        group = message.system_properties.message_group
        assert message.system_properties.queue_id == queue_of_key(group, 4)
        assert message.system_properties.message_type == pb.FIFO


async def test_a_priority_chooses_the_queue(client: GrpcClient) -> None:
    for priority in (0, 3, 1, 9):
        await client.send(a_message(b"%d" % priority, priority=priority, message_type=pb.PRIORITY))

    found = await client.received()

    queues = {m.system_properties.priority: m.system_properties.queue_id for m in found}
    assert queues == {0: 0, 1: 1, 3: 3, 9: 3}


URGENT = pb.Resource(name="urgent")


async def test_a_topic_of_priorities_hands_out_the_highest_first(client: GrpcClient) -> None:
    for priority in (0, 9, 1, 2):
        system = {"priority": priority, "message_type": pb.PRIORITY}
        await client.send(a_message(b"%d" % priority, topic=URGENT, **system))

    found = await client.received(topic=URGENT)

    assert [message.body for message in found] == [b"9", b"2", b"1", b"0"]


async def test_what_a_client_writes_where_the_server_writes_is_ignored(
    client: GrpcClient,
) -> None:
    """C++ writes a piece of a time as the attempt of a delayed message."""
    await client.send(a_message(delivery_attempt=1_700_000, queue_offset=77, receipt_handle="x"))

    (found,) = await client.received()

    assert found.system_properties.delivery_attempt == 1
    assert found.system_properties.queue_offset == 0
    assert found.system_properties.receipt_handle != "x"


async def test_a_delayed_message_comes_at_its_time(client: GrpcClient, clock: ManualClock) -> None:
    due_s = clock.wall_ms() // 1000 + 60
    answer = await client.send(
        a_message(message_type=pb.DELAY, delivery_timestamp={"seconds": due_s})
    )
    assert await client.received() == []

    clock.advance(60_000)
    found: list[pb.Message] = []
    while not found:
        found = await client.received(long_polling_timeout={"seconds": 1})

    assert answer.entries[0].recall_handle
    assert found[0].system_properties.message_type == pb.DELAY
    assert found[0].system_properties.delivery_timestamp.seconds == due_s


async def test_a_time_in_the_past_means_now(client: GrpcClient) -> None:
    await client.send(a_message(message_type=pb.DELAY, delivery_timestamp={"seconds": 5}))

    found: list[pb.Message] = []
    while not found:
        found = await client.received(long_polling_timeout={"seconds": 1})

    assert bodies(found) == [b"hello"]


async def test_a_recalled_message_is_never_delivered(
    client: GrpcClient, clock: ManualClock
) -> None:
    due_s = clock.wall_ms() // 1000 + 60
    sent = await client.send(
        a_message(
            message_id="id with blanks",
            message_type=pb.DELAY,
            delivery_timestamp={"seconds": due_s},
        )
    )
    recall = pb.RecallMessageRequest(
        topic=pb.Resource(name="orders"), recall_handle=sent.entries[0].recall_handle
    )

    answers = [await client.call("RecallMessage", recall) for _ in range(2)]
    clock.advance(120_000)

    assert [answer.status.code for answer in answers] == [pb.OK, pb.OK]
    assert {answer.message_id for answer in answers} == {"id with blanks"}
    assert await client.received(long_polling_timeout={"seconds": 1}) == []


@pytest.mark.parametrize("handle", ["", "nonsense", "djEgb3JkZXJz", "é" * 10, "a" * 100_000])
async def test_a_recall_handle_that_is_none_is_refused(client: GrpcClient, handle: str) -> None:
    recall = pb.RecallMessageRequest(topic=pb.Resource(name="orders"), recall_handle=handle)

    answer = await client.call("RecallMessage", recall)

    assert answer.status.code in (pb.BAD_REQUEST, pb.MESSAGE_NOT_FOUND)


async def test_nothing_of_a_refused_request_is_stored(client: GrpcClient) -> None:
    answer = await client.send(a_message(b"good"), a_message(b"bad", tag="a|b"))

    assert answer.status.code == pb.ILLEGAL_MESSAGE_TAG
    assert (await client.frames(a_receive()))[0].status.code == pb.MESSAGE_NOT_FOUND
