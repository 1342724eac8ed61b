"""What goes in by one door comes out of another as it was: gRPC and REST, each way."""

import base64
from typing import Any

import numpy as np
import pytest

from apps.doors.grpc.calls import GrpcDoor
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.http.app import create_app
from apps.doors.http.settings import DoorSettings
from apps.engine.codec.litenames import lite_topic
from apps.engine.codec.record import encode_record
from apps.engine.codec.tags import queue_of_key
from apps.engine.codec.wire import build_batch
from apps.engine.testing.manualclock import ManualClock
from tests.doors.asgi import RECORDS, Client
from tests.doors.grpc.client import GrpcClient, a_lite_message, a_message, a_sync

HOSTILE = "<b>'\"\\%s{{7*7}} \u202e\U0001f4a5"
PROPERTIES = {"colour": HOSTILE, "größe": "ü", "empty": "", "n": "-1.5e3"}


@pytest.fixture
def rest(door: GrpcDoor, clock: ManualClock) -> Client:
    return Client(create_app(door.engine_of, DoorSettings(), clock=clock))


async def posted(rest: Client, path: str, document: object) -> Any:
    response = await rest.request("POST", f"/api/v1{path}", document=document)
    assert response.status in (200, 201), response.json()
    return response.json()


async def by_rest(rest: Client, **values: object) -> dict[str, Any]:
    answer = await posted(rest, "/groups/billing/messages:receive", {"topic": "orders", **values})
    (found,) = answer["messages"]
    return dict(found)


async def test_what_is_sent_by_grpc_is_received_by_rest(client: GrpcClient, rest: Client) -> None:
    await client.send(
        a_message(
            HOSTILE.encode(),
            message_id="01ABC<>",
            tag=HOSTILE.strip(),
            keys=["k1", "k<2>"],
            message_group="group 1",
            message_type=pb.FIFO,
            user_properties=PROPERTIES,
        )
    )

    found = await by_rest(rest)

    assert found["message_id"] == "01ABC<>"
    assert found["body"] == HOSTILE
    assert (found["tag"], found["keys"]) == (HOSTILE.strip(), ["k1", "k<2>"])
    assert found["sharding_key"] == "group 1"
    assert found["queue"] == queue_of_key("group 1", 4)
    assert {name: found["properties"][name] for name in PROPERTIES} == PROPERTIES
    assert found["delivery_attempt"] == 1


async def test_bytes_that_are_no_text_cross_as_well(client: GrpcClient, rest: Client) -> None:
    body = bytes(range(256))
    await client.send(a_message(body))

    found = await by_rest(rest)
    await posted(
        rest,
        "/topics/orders/messages",
        {"messages": [{"body_base64": base64.b64encode(body).decode()}]},
    )
    (back,) = await client.received()

    assert base64.b64decode(found["body_base64"]) == body
    assert back.body == body


async def test_what_is_sent_by_rest_is_received_by_grpc(client: GrpcClient, rest: Client) -> None:
    sent = await posted(
        rest,
        "/topics/orders/messages",
        {
            "messages": [
                {
                    "body": HOSTILE,
                    "tag": HOSTILE.strip(),
                    "keys": ["k1", "k<2>"],
                    "sharding_key": "group 1",
                    "properties": PROPERTIES,
                }
            ]
        },
    )
    (result,) = sent["results"]

    (found,) = await client.received()
    system = found.system_properties

    assert system.message_id == result["message_id"]
    assert found.body.decode() == HOSTILE
    assert (system.tag, list(system.keys)) == (HOSTILE.strip(), ["k1", "k<2>"])
    assert (system.message_group, system.message_type) == ("group 1", pb.FIFO)
    assert (system.queue_id, system.queue_offset) == (result["queue"], int(result["offset"]))
    assert dict(found.user_properties) == PROPERTIES


async def test_a_delivery_time_crosses_both_ways(
    client: GrpcClient, rest: Client, clock: ManualClock
) -> None:
    due_ms = clock.wall_ms() + 60_000
    await client.send(
        a_message(b"by grpc", message_type=pb.DELAY, delivery_timestamp={"seconds": due_ms // 1000})
    )
    await posted(
        rest, "/topics/orders/messages", {"messages": [{"body": "by rest", "deliver_at": due_ms}]}
    )
    early = await client.received()

    clock.advance(60_000)
    found: list[pb.Message] = []
    while len(found) < 2:
        found += await client.received(long_polling_timeout={"seconds": 1})

    assert early == []
    times = {
        message.body: message.system_properties.delivery_timestamp.ToMilliseconds()
        for message in found
    }
    assert times == {b"by grpc": due_ms // 1000 * 1000, b"by rest": due_ms}


async def test_a_recall_crosses_both_ways(
    client: GrpcClient, rest: Client, clock: ManualClock
) -> None:
    due_ms = clock.wall_ms() + 60_000
    answer = await client.send(
        a_message(message_type=pb.DELAY, delivery_timestamp={"seconds": due_ms // 1000})
    )
    handle = answer.entries[0].recall_handle
    sent = await posted(
        rest, "/topics/orders/messages", {"messages": [{"body": "b", "deliver_at": due_ms}]}
    )

    by_rest = await rest.request("DELETE", f"/api/v1/delayed/{handle}")
    by_grpc = await client.call(
        "RecallMessage",
        pb.RecallMessageRequest(
            topic=pb.Resource(name="orders"), recall_handle=sent["results"][0]["recall_handle"]
        ),
    )

    assert by_rest.status == 200
    assert by_grpc.status.code == pb.OK
    assert by_grpc.message_id == sent["results"][0]["message_id"]


async def test_a_handle_of_one_door_is_good_at_the_other(client: GrpcClient, rest: Client) -> None:
    await client.send(a_message(b"1"))
    found = await by_rest(rest)
    message = a_message()
    message.system_properties.receipt_handle = found["receipt_handle"]

    acked_by_grpc = await client.ack(message)
    await client.send(a_message(b"2"))
    (second,) = await client.received()
    acked_by_rest = await posted(
        rest,
        "/groups/billing/messages:ack",
        {"receipt_handles": [second.system_properties.receipt_handle]},
    )

    assert acked_by_grpc.status.code == pb.OK
    assert [item["status"] for item in acked_by_rest["results"]] == ["ok"]
    assert await client.received() == []


async def test_a_transaction_begun_by_grpc_is_ended_by_rest(
    client: GrpcClient, rest: Client
) -> None:
    answer = await client.send(a_message(b"half", message_type=pb.TRANSACTION))

    ended = await posted(rest, f"/transactions/{answer.entries[0].transaction_id}:commit", {})
    (found,) = await client.received()

    assert (ended["outcome"], ended["topic"]) == ("committed", "orders")
    assert found.body == b"half"


async def test_what_failed_at_one_door_comes_again_at_the_other(
    client: GrpcClient, rest: Client, clock: ManualClock
) -> None:
    await client.send(a_message())
    found = await by_rest(rest)
    await posted(
        rest,
        "/groups/billing/messages:nack",
        {"receipt_handles": [found["receipt_handle"]], "delay_ms": 5_000, "reason": HOSTILE},
    )

    clock.advance(5_000)
    (again,) = await client.received()

    assert again.system_properties.delivery_attempt == 2
    assert again.topic.name == "orders"


async def test_a_priority_of_grpc_is_read_in_order_of_queues(
    client: GrpcClient, rest: Client
) -> None:
    for priority in (0, 3, 1):
        await client.send(a_message(b"%d" % priority, priority=priority, message_type=pb.PRIORITY))

    found = [await by_rest(rest, max=1, high_queue_first=True) for _ in range(3)]

    assert [message["body"] for message in found] == ["3", "1", "0"]


LITE = "/topics/%25LITE%25inbox%7Calice"


async def test_a_message_of_a_lite_topic_is_read_by_rest_by_its_own_name(
    client: GrpcClient, rest: Client
) -> None:
    await client.send(
        a_lite_message(
            HOSTILE.encode(),
            "alice",
            message_id="01ABC<>",
            tag="t",
            keys=["k1", "k<2>"],
            user_properties=PROPERTIES,
        )
    )

    found = await by_rest(rest, topic=lite_topic("inbox", "alice"))
    pulled = await rest.request("GET", f"/api/v1{LITE}/queues/0/messages?offset=0")
    (read,) = pulled.json()["messages"]

    assert found["message_id"] == read["message_id"] == "01ABC<>"
    assert found["topic"] == "%LITE%inbox|alice"
    assert (found["body"], found["tag"], found["keys"]) == (HOSTILE, "t", ["k1", "k<2>"])
    assert {name: found["properties"][name] for name in PROPERTIES} == PROPERTIES


async def test_what_rest_sends_to_a_lite_topic_reaches_who_is_subscribed(
    client: GrpcClient, rest: Client
) -> None:
    await client.call("SyncLiteSubscription", a_sync("alice"))
    message = {"body": HOSTILE, "tag": "t", "keys": ["k"], "properties": PROPERTIES}

    sent = await posted(rest, f"{LITE}/messages", {"messages": [message, {"body": "bare"}]})
    found, bare = await client.received(topic=pb.Resource(name="inbox"))

    system = found.system_properties
    assert system.message_id == sent["results"][0]["message_id"]
    assert (system.lite_topic, system.message_type) == ("alice", pb.LITE)
    assert (found.topic.name, found.body.decode()) == ("inbox", HOSTILE)
    assert (system.tag, list(system.keys), dict(found.user_properties)) == ("t", ["k"], PROPERTIES)
    assert (bare.body, bare.system_properties.lite_topic) == (b"bare", "alice")
    assert sent["results"][1]["queue"] == 0


async def test_records_that_a_program_made_itself_reach_a_lite_topic_too(
    client: GrpcClient, rest: Client
) -> None:
    """The SDK sends so; its records do not say in a property which lite topic they are for."""
    await client.call("SyncLiteSubscription", a_sync("alice"))
    name = lite_topic("inbox", "alice").encode()
    record = encode_record(
        topic=name, queue=0, body=b"x", properties=b"", born_time_ms=1, born_host=bytes(8)
    )

    answer = await rest.request(
        "POST",
        f"/api/v1{LITE}/messages?queue=0",
        body=build_batch(record, np.array([len(record)], dtype=np.int32)),
        headers={"content-type": RECORDS},
    )
    (found,) = await client.received(topic=pb.Resource(name="inbox"))

    assert answer.status == 201
    assert (found.body, found.system_properties.lite_topic) == (b"x", "alice")
    assert found.system_properties.message_type == pb.LITE


@pytest.mark.parametrize(
    ("path", "document", "code"),
    [
        ("/topics/inbox/messages", {"messages": [{"body": "x"}]}, "lite_topic_illegal"),
        (
            "/topics/inbox/transactions",
            {"message": {"body": "x"}, "producer_group": "g"},
            "lite_topic_illegal",
        ),
        (
            f"{LITE}/transactions",
            {"message": {"body": "x"}, "producer_group": "g"},
            "message_illegal",
        ),
        (f"{LITE}/messages", {"messages": [{"body": "x", "delay_ms": 1000}]}, "message_illegal"),
        (
            "/topics/%25LITE%25orders%7Calice/messages",
            {"messages": [{"body": "x"}]},
            "unknown_topic",
        ),
        ("/topics/%25LITE%25inbox/messages", {"messages": [{"body": "x"}]}, "unknown_topic"),
    ],
)
async def test_rest_says_why_a_message_is_for_no_lite_topic(
    rest: Client, path: str, document: object, code: str
) -> None:
    response = await rest.request("POST", f"/api/v1{path}", document=document)

    assert response.json()["code"] == code


async def test_records_for_a_topic_of_lite_topics_are_refused(rest: Client) -> None:
    record = encode_record(
        topic=b"inbox", queue=0, body=b"x", properties=b"", born_time_ms=1, born_host=bytes(8)
    )

    answer = await rest.request(
        "POST",
        "/api/v1/topics/inbox/messages?queue=0",
        body=build_batch(record, np.array([len(record)], dtype=np.int32)),
        headers={"content-type": RECORDS},
    )

    assert answer.json()["code"] == "lite_topic_illegal"
