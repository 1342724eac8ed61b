"""Sending JSON messages: what is stored, where, and what the answer says."""

import base64
from typing import Any

import pytest

from apps.doors.http.app import create_app
from apps.doors.http.settings import DoorSettings
from apps.engine.types import AckMode, CatalogSnapshot, Cleanup, TopicSpec
from tests.doors.asgi import Client
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

MESSAGES = "/api/v1/topics/single/messages"
ORDERS = "/api/v1/topics/orders/messages"


async def pulled(client: Client, topic: str = "single", queue: int = 0) -> list[dict[str, Any]]:
    answer = await client.get(
        f"/api/v1/topics/{topic}/queues/{queue}/messages?offset=0&max=1000&wait_ms=5000"
    )
    return list(answer.json()["messages"])


async def test_a_message_is_stored_and_its_place_is_told(client: Client) -> None:
    answer = await client.post(MESSAGES, {"messages": [{"body": "hello", "tag": "TagA"}]})

    assert answer.status == 201
    (result,) = answer.json()["results"]
    assert len(result.pop("message_id")) == 32
    assert result == {
        "index": 0,
        "status": 201,
        "queue": 0,
        "offset": "0",
        "store_time": "2023-11-14T22:13:20.123Z",
        "recall_handle": None,
    }


async def test_every_field_of_a_message_comes_back_as_it_was_sent(client: Client) -> None:
    sent = {
        "body": "größer 中文 \x00",
        "tag": "TagA",
        "keys": ["k1", "k2"],
        "properties": {"colour": "grün", "empty": ""},
        "sharding_key": "order-7",
        "producer_id": "till-1",
        "producer_seq": 2**63 - 1,
    }

    answer = await client.post(MESSAGES, {"messages": [sent]})

    (message,) = await pulled(client)
    assert message == {
        "message_id": answer.json()["results"][0]["message_id"],
        "topic": "single",
        "queue": 0,
        "offset": "0",
        "tag": "TagA",
        "keys": ["k1", "k2"],
        "properties": {
            "colour": "grün",
            "empty": "",
            "PRODUCER_ID": "till-1",
            "PRODUCER_SEQ": "9223372036854775807",
        },
        "sharding_key": "order-7",
        "born_time": "2023-11-14T22:13:20.123Z",
        "store_time": "2023-11-14T22:13:20.123Z",
        "reconsume_times": 0,
        "body": "größer 中文 \x00",
    }


async def test_what_was_not_given_is_null_or_empty(client: Client) -> None:
    await client.post(MESSAGES, {"messages": [{"body": ""}]})

    (message,) = await pulled(client)
    assert (message["body"], message["tag"], message["sharding_key"]) == ("", None, None)
    assert (message["keys"], message["properties"]) == ([], {})


async def test_bytes_that_are_not_text_travel_in_base64(client: Client) -> None:
    encoded = base64.b64encode(b"\xff\x00\xfe").decode()

    await client.post(MESSAGES, {"messages": [{"body_base64": encoded}]})

    (message,) = await pulled(client)
    assert message["body_base64"] == encoded
    assert "body" not in message


async def test_each_message_has_an_id_of_its_own(client: Client) -> None:
    answer = await client.post(MESSAGES, {"messages": [{"body": "x"}] * 1000})

    ids = [result["message_id"] for result in answer.json()["results"]]
    assert len(set(ids)) == 1000
    assert [message["message_id"] for message in await pulled(client)] == ids


async def test_a_sharding_key_chooses_by_hash_then_modulo(client: Client, engine: Recorder) -> None:
    # The second key hashes to Java's smallest integer, whose absolute value Java does not have.
    keys = ["order-7", "polygenelubricants", "TagA"]

    answer = await client.post(
        "/api/v1/topics/orders/messages",
        {"messages": [{"body": key, "sharding_key": key} for key in keys]},
    )

    def java(text: str) -> int:
        value = 0
        for unit in text:
            value = (31 * value + ord(unit)) % 2**32
        return value - 2**32 if value >= 2**31 else value

    expected = [abs(java("order-7")) % 4, 0, 2598919 % 4]
    assert [result["queue"] for result in answer.json()["results"]] == expected
    assert java("polygenelubricants") == -(2**31)


async def test_a_priority_chooses_the_queue_and_is_told(client: Client) -> None:
    messages = [{"body": str(priority), "priority": priority} for priority in (0, 2, 9)]

    answer = await client.post(
        "/api/v1/topics/urgent/messages",
        {"messages": [*messages, {"body": "none"}], "ack": "sync"},
    )
    found = await client.post(
        "/api/v1/groups/g/messages:receive", {"topic": "urgent", "max": 10, "wait_ms": 5000}
    )

    assert [result["queue"] for result in answer.json()["results"]] == [0, 2, 2, 0]
    told = [
        (message["body"], message["properties"].get("_SYS_MSG_PRIORITY_"))
        for message in found.json()["messages"]
    ]
    assert told == [("2", "2"), ("9", "9"), ("0", "0"), ("none", None)]


async def test_requests_without_a_key_take_the_queues_in_turn(client: Client) -> None:
    queues = []

    for _ in range(8):
        answer = await client.post(
            "/api/v1/topics/orders/messages", {"messages": [{"body": "a"}, {"body": "b"}]}
        )
        queues.append({result["queue"] for result in answer.json()["results"]})

    assert queues == [{0}, {1}, {2}, {3}] * 2


async def test_messages_go_only_to_the_queues_that_take_some(
    client: Client, engine: Recorder
) -> None:
    """While a topic shrinks its last queues are read empty; while it grows new ones may wait."""
    shrinking = TopicSpec(name="orders", queue_count=4, write_queue_count=2)
    engine.publish_catalog(CatalogSnapshot(version=2, topics={"orders": shrinking}))
    keyed = [{"body": key, "sharding_key": key} for key in "abcdefgh"]

    for _ in range(4):
        await client.post(ORDERS, {"messages": [{"body": "x"}], "ack": "sync"})
    by_key = await client.post(ORDERS, {"messages": keyed, "ack": "sync"})
    chosen = await client.post(ORDERS, {"messages": [{"body": "x", "queue": 2}, {"body": "y"}]})

    ends = [found.max_offset for found in engine.queue_ranges("orders")]
    assert [ends[queue] > 2 for queue in range(4)] == [True, True, False, False]
    assert ends[2:] == [0, 0]
    assert {result["queue"] for result in by_key.json()["results"]} == {0, 1}
    assert [result["status"] for result in chosen.json()["results"]] == [404, 201]


async def test_a_topic_without_a_queue_that_takes_messages_refuses_them(
    client: Client, engine: Recorder
) -> None:
    closed = TopicSpec(name="orders", queue_count=4, write_queue_count=0)
    engine.publish_catalog(CatalogSnapshot(version=2, topics={"orders": closed}))

    answer = await client.post(ORDERS, {"messages": [{"body": "x", "sharding_key": "k"}]})

    assert (answer.status, answer.code) == (404, "unknown_queue")


async def test_a_request_is_one_append_with_runs_of_a_queue_together(
    client: Client, engine: Recorder
) -> None:
    queues = [0, 0, 1, 1, 1, 0]

    answer = await client.post(
        "/api/v1/topics/orders/messages",
        {"messages": [{"body": str(i), "queue": q} for i, q in enumerate(queues)]},
    )

    ((batches, _),) = engine.appends
    assert [(batch.queue, len(batch.sizes)) for batch in batches] == [(0, 2), (1, 3), (0, 1)]
    results = answer.json()["results"]
    assert [result["queue"] for result in results] == queues
    assert [result["offset"] for result in results] == ["0", "1", "0", "1", "2", "2"]
    bodies = [message["body"] for message in await pulled(client, "orders", 0)]
    assert bodies == ["0", "1", "5"]


@pytest.mark.parametrize("ack", list(AckMode))
async def test_the_engine_is_asked_for_the_ack_of_the_request(
    client: Client, engine: Recorder, ack: AckMode
) -> None:
    await client.post(MESSAGES, {"messages": [{"body": "x"}], "ack": ack.value})

    assert [used for _, used in engine.appends] == [ack]


async def test_without_an_ack_the_default_of_the_settings_is_used(
    engine: Recorder, clock: ManualClock
) -> None:
    client = Client(create_app(lambda: engine, DoorSettings(), clock=clock))

    await client.post(MESSAGES, {"messages": [{"body": "x"}]})

    assert [used for _, used in engine.appends] == [AckMode.SYNC]


async def test_a_oneway_send_is_answered_without_results(client: Client) -> None:
    answer = await client.post(MESSAGES, {"messages": [{"body": "x"}], "ack": "oneway"})

    assert (answer.status, answer.body) == (202, b"")
    assert [message["body"] for message in await pulled(client)] == ["x"]


BAD_MESSAGES = [
    pytest.param({}, 422, "invalid_argument", id="no body"),
    pytest.param({"body": "x", "body_base64": "eA=="}, 422, "invalid_argument", id="two bodies"),
    pytest.param({"body_base64": "eA="}, 422, "invalid_argument", id="padding missing"),
    pytest.param({"body_base64": "e A=="}, 422, "invalid_argument", id="blank in base64"),
    pytest.param({"body_base64": "中文"}, 422, "invalid_argument", id="base64 not ascii"),
    pytest.param({"body": "x" * (4 * 2**20 + 1)}, 413, "message_too_large", id="body too large"),
    pytest.param(
        {"body": "x", "properties": {"p": "x" * 32767}},
        413,
        "message_too_large",
        id="properties too large",
    ),
    pytest.param({"body": "x", "properties": {"KEYS": "a"}}, 422, "invalid_argument", id="KEYS"),
    pytest.param(
        {"body": "x", "properties": {"UNIQ_KEY": "a"}}, 422, "invalid_argument", id="UNIQ_KEY"
    ),
    pytest.param(
        {"body": "x", "properties": {"a\x01b": ""}}, 422, "invalid_argument", id="0x01 in a name"
    ),
    pytest.param(
        {"body": "x", "properties": {"a": "b\x02"}}, 422, "invalid_argument", id="0x02 in a value"
    ),
    pytest.param(
        {"body": "x", "properties": {"": "b"}}, 422, "invalid_argument", id="property unnamed"
    ),
    pytest.param({"body": "x", "tag": ""}, 422, "invalid_argument", id="tag empty"),
    pytest.param({"body": "x", "tag": "a||b"}, 422, "invalid_argument", id="two tags"),
    pytest.param({"body": "x", "tag": "*"}, 422, "invalid_argument", id="tag is the wildcard"),
    pytest.param({"body": "x", "tag": "a\x02"}, 422, "invalid_argument", id="0x02 in the tag"),
    pytest.param({"body": "x", "keys": ["a b"]}, 422, "invalid_argument", id="blank in a key"),
    pytest.param({"body": "x", "keys": [""]}, 422, "invalid_argument", id="key empty"),
    pytest.param({"body": "x", "queue": 1}, 404, "unknown_queue", id="queue too high"),
    pytest.param({"body": "x", "queue": -1}, 404, "unknown_queue", id="queue negative"),
    pytest.param({"body": "x", "queue": 2**70}, 404, "unknown_queue", id="queue beyond 64 bits"),
    pytest.param(
        {"body": "x", "queue": 0, "sharding_key": "a"}, 422, "invalid_argument", id="key and queue"
    ),
    pytest.param({"body": "x", "sharding_key": ""}, 422, "invalid_argument", id="key of nothing"),
    pytest.param(
        {"body": "x", "queue": 0, "priority": 0}, 422, "invalid_argument", id="priority and queue"
    ),
    pytest.param({"body": "x", "producer_id": "p"}, 422, "invalid_argument", id="no sequence"),
    pytest.param({"body": "x", "producer_seq": 1}, 422, "invalid_argument", id="no producer"),
]


@pytest.mark.parametrize(("bad", "status", "code"), BAD_MESSAGES)
async def test_a_bad_message_is_told_apart_and_the_good_ones_are_stored(
    client: Client, bad: dict[str, object], status: int, code: str
) -> None:
    answer = await client.post(MESSAGES, {"messages": [{"body": "a"}, bad, {"body": "b"}]})

    assert answer.status == 207
    first, second, third = answer.json()["results"]
    assert (first["status"], first["offset"]) == (201, "0")
    assert (third["status"], third["offset"]) == (201, "1")
    assert (second["index"], second["status"]) == (1, status)
    assert second["problem"]["code"] == code
    assert second["problem"]["status"] == status
    assert second["problem"]["request_id"] == answer.headers["x-request-id"]
    assert "offset" not in second
    assert [message["body"] for message in await pulled(client)] == ["a", "b"]


async def test_a_compacted_topic_takes_the_messages_that_have_a_key(
    client: Client, engine: Recorder
) -> None:
    compacted = TopicSpec(name="single", queue_count=1, cleanup=Cleanup.COMPACT)
    engine.publish_catalog(CatalogSnapshot(version=2, topics={"single": compacted}))

    answer = await client.post(
        MESSAGES, {"messages": [{"body": "a", "keys": ["k"]}, {"body": "b"}, {"body": "c"}]}
    )

    assert answer.status == 207
    good, *bad = answer.json()["results"]
    assert (good["status"], good["offset"]) == (201, "0")
    assert [(one["status"], one["problem"]["code"]) for one in bad] == [
        (422, "message_illegal")
    ] * 2
    assert [message["body"] for message in await pulled(client)] == ["a"]


async def test_when_every_message_is_bad_nothing_is_appended(
    client: Client, engine: Recorder
) -> None:
    answer = await client.post(MESSAGES, {"messages": [{"body": "x", "queue": 9}, {}]})

    assert answer.status == 207
    assert [result["status"] for result in answer.json()["results"]] == [404, 422]
    assert engine.calls == []


async def test_a_oneway_send_still_tells_which_messages_are_bad(client: Client) -> None:
    answer = await client.post(MESSAGES, {"messages": [{"body": "x"}, {}], "ack": "oneway"})

    assert answer.status == 207
    good, bad = answer.json()["results"]
    assert good == {"index": 0, "status": 202}
    assert bad["problem"]["code"] == "invalid_argument"


async def test_a_topic_name_is_percent_decoded_once(client: Client) -> None:
    answer = await client.post(
        "/api/v1/topics/%25a%7Cb%25billing/messages", {"messages": [{"body": "again"}]}
    )

    assert answer.status == 201
    (message,) = await pulled(client, "%25a%7Cb%25billing")
    assert message["topic"] == "%a|b%billing"


async def test_the_largest_body_is_taken(client: Client) -> None:
    answer = await client.post(MESSAGES, {"messages": [{"body": "x" * (4 * 2**20)}]})

    assert answer.status == 201
