"""Messages for lite topics over the wire: which are taken, where they go, and which are refused."""

from typing import Any

import pytest

from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.engine.limits import LITE_NAME_CHARACTERS_MAX
from tests.doors.grpc.client import (
    ENDPOINTS,
    GrpcClient,
    a_lite_message,
    a_message,
)
from tests.doors.grpc.test_lite import INBOX, received, sent, subscribed, synced


async def test_a_message_of_a_lite_topic_comes_back_with_its_name(client: GrpcClient) -> None:
    await subscribed(client, "alice")
    message = a_lite_message(b"hello", "alice", tag="t", keys=["k"], user_properties={"p": "v"})

    answer = await client.send(message)
    (found,) = await client.received(topic=INBOX)

    system = found.system_properties
    assert (answer.status.code, answer.entries[0].offset) == (pb.OK, 0)
    assert answer.entries[0].message_id == system.message_id
    assert found.topic == INBOX
    assert (system.lite_topic, system.message_type) == ("alice", pb.LITE)
    assert (system.tag, list(system.keys), dict(found.user_properties)) == ("t", ["k"], {"p": "v"})
    assert (system.queue_id, system.queue_offset, system.delivery_attempt) == (0, 0, 1)


async def test_messages_of_one_request_may_be_for_several_lite_topics(client: GrpcClient) -> None:
    await subscribed(client, "a", "b")
    await sent(client, ("a", b"a0"), ("b", b"b0"), ("a", b"a1"))

    found = await client.received(topic=INBOX)

    by_name = {name: [] for name in ("a", "b")}  # type: dict[str, list[bytes]]
    for message in found:
        by_name[message.system_properties.lite_topic].append(message.body)
    assert by_name == {"a": [b"a0", b"a1"], "b": [b"b0"]}


@pytest.mark.parametrize("name", ["", "a b", "a|b", "a%b", "ü", "a" * 65, "\U0001f4a5"])
async def test_a_name_that_is_none_is_refused(client: GrpcClient, name: str) -> None:
    answer = await client.send(a_lite_message(b"x", name))

    assert answer.status.code == pb.ILLEGAL_LITE_TOPIC
    assert await synced(client, name) == pb.ILLEGAL_LITE_TOPIC


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the store that is opened next have two lite topics and no more."""
    monkeypatch.setattr("apps.engine.broker.composed.LITE_TOPICS_MAX", 2)


async def test_more_lite_topics_than_a_store_may_have_are_refused(
    few: None, client: GrpcClient
) -> None:
    await sent(client, ("a", b"a0"), ("b", b"b0"))

    answer = await client.send(a_lite_message(b"c0", "c"))
    await sent(client, ("a", b"a1"))

    assert answer.status.code == pb.LITE_TOPIC_QUOTA_EXCEEDED


async def test_a_name_as_long_as_may_be_is_taken(client: GrpcClient) -> None:
    name = "a-Z_9" + "x" * (LITE_NAME_CHARACTERS_MAX - 5)
    await subscribed(client, name)

    await sent(client, (name, b"x"))

    assert await received(client) == [b"x"]


@pytest.mark.parametrize(
    ("topic", "system", "code"),
    [
        ("inbox", {"message_type": pb.NORMAL}, pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ("inbox", {"message_type": pb.LITE}, pb.ILLEGAL_LITE_TOPIC),
        (
            "inbox",
            {"message_type": pb.FIFO, "message_group": "g"},
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
        ),
        (
            "inbox",
            {"message_type": pb.LITE, "lite_topic": "a", "message_group": "g"},
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
        ),
        (
            "inbox",
            {"message_type": pb.NORMAL, "lite_topic": "a"},
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
        ),
        (
            "inbox",
            {"message_type": pb.TRANSACTION, "lite_topic": "a"},
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
        ),
        (
            "orders",
            {"message_type": pb.LITE, "lite_topic": "a"},
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
        ),
        (
            "normal",
            {"message_type": pb.LITE, "lite_topic": "a"},
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
        ),
        ("%LITE%inbox|a", {"message_type": pb.NORMAL}, pb.ILLEGAL_TOPIC),
    ],
)
async def test_what_does_not_go_with_the_topic_is_refused(
    client: GrpcClient, topic: str, system: dict[str, Any], code: int
) -> None:
    await subscribed(client, "a")

    answer = await client.send(a_message(topic=pb.Resource(name=topic), **system))

    assert answer.status.code == code
    assert await received(client) == []


async def test_the_route_of_a_topic_says_that_it_takes_them(client: GrpcClient) -> None:
    request = pb.QueryRouteRequest(topic=INBOX, endpoints=ENDPOINTS)

    answer = await client.call("QueryRoute", request)

    assert [list(queue.accept_message_types) for queue in answer.message_queues] == [[pb.LITE]] * 4


async def test_a_namespace_is_part_of_the_parents_name(client: GrpcClient) -> None:
    shop = client.named("shop@1", x_mq_namespace="shop")
    inbox = pb.Resource(resource_namespace="shop", name="inbox")
    await subscribed(shop, "a", topic=inbox)
    await shop.send(a_lite_message(b"x", "a", topic=inbox))

    (found,) = await shop.received(topic=inbox)

    assert (found.topic, found.system_properties.lite_topic) == (inbox, "a")
    assert await received(client) == []
