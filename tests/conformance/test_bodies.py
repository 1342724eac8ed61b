"""Bodies that a client packed, and messages with a priority: what not every client can send."""

import gzip
import uuid
import zlib
from collections.abc import Callable

import grpc
import pytest
from mqclient.rocketmq.connections import SERVICE
from mqclient.rocketmq.protos import rocketmq_pb2 as pb

from tests.conformance.driving import ClientRefused
from tests.conformance.stage import Stage, drain, send

TEXT = b"packed as the C++ client packs it, " * 100


def _send_packed(endpoint: str, topic: str, body: bytes) -> str:
    """Send a packed body as C++ would, which is not played here; return the message's id."""
    message_id = f"01{uuid.uuid4().hex.upper()}"
    system = pb.SystemProperties(
        message_id=message_id, body_encoding=pb.GZIP, message_type=pb.NORMAL
    )
    message = pb.Message(topic=pb.Resource(name=topic), system_properties=system, body=body)
    with grpc.insecure_channel(endpoint) as channel:
        call = channel.unary_unary(
            f"{SERVICE}SendMessage",
            request_serializer=pb.SendMessageRequest.SerializeToString,
            response_deserializer=pb.SendMessageResponse.FromString,
        )
        answer = call(
            pb.SendMessageRequest(messages=[message]),
            metadata=(("x-mq-client-id", "packer"),),
            timeout=30,
        )
    assert answer.status.code == pb.OK, answer
    return message_id


@pytest.mark.rocketmq("bodies that another client packed, gzip or zlib")
@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
def test_a_packed_body_comes_unpacked(stage: Stage, pack: Callable[[bytes], bytes]) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    consumer = stage.simple(driver, group, topic)

    message_id = _send_packed(stage.server.endpoint, topic, pack(TEXT))
    (seen,) = drain(driver, consumer, 1)

    assert (seen.message_id, seen.body) == (message_id, TEXT)
    assert not seen.is_corrupted


@pytest.mark.rocketmq("messages with a priority, where the topic takes them")
def test_a_message_with_a_priority_comes_beside_others(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("MIXED"), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.simple(driver, group, topic)

    ids = {
        send(driver, producer, topic, f"{priority}", priority=priority)["message_id"]
        for priority in (0, 3, 9)
    }
    ids.add(send(driver, producer, topic, "none")["message_id"])
    seen = drain(driver, consumer, 4)

    assert {one.message_id for one in seen} == ids
    assert {one.text for one in seen} == {"0", "3", "9", "none"}


def _lowest(stage: Stage) -> int:
    """Return the lowest priority that a client sends; to Node's 0 is none."""
    return 1 if stage.client.name == "node" else 0


@pytest.mark.rocketmq("a topic of priorities: the highest first")
def test_the_highest_priority_comes_first(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("PRIORITY", queue_count=10), stage.group()
    producer = stage.producer(driver, topic)
    lowest = _lowest(stage)
    for priority in (3, lowest, 9, 42, 5):
        send(driver, producer, topic, f"{priority}", priority=priority)

    consumer = stage.simple(driver, group, topic)
    seen = drain(driver, consumer, 5, messages_max=1)

    # Above the highest queue all are alike, and come in the order they were sent.
    assert [one.text for one in seen] == ["9", "42", "5", "3", f"{lowest}"]


@pytest.mark.rocketmq("a topic of priorities: the highest first")
def test_a_message_without_a_priority_is_refused_there(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("PRIORITY"), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.simple(driver, group, topic)

    with pytest.raises(ClientRefused):
        send(driver, producer, topic, "none")
    send(driver, producer, topic, "lowest", priority=_lowest(stage))

    assert [one.text for one in drain(driver, consumer, 1)] == ["lowest"]
