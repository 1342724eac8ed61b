"""Messages that fail: given back, sent back, dead; and what their readers are told of it."""

import json
from typing import Any

import numpy as np
import pytest

from apps.doors.http.calls import settled
from apps.engine.codec import wire
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from tests.doors.asgi import RECORDS, Client, Response
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

GROUP = "/api/v1/groups/billing"
SEND_BACK = f"{GROUP}/messages:send-back"
NACK = f"{GROUP}/messages:nack"
NOW = "2023-11-14T22:13:20.123Z"


async def send(client: Client, *bodies: str) -> list[str]:
    """Send messages and return their ids."""
    answer = await client.post(
        "/api/v1/topics/single/messages",
        {"messages": [{"body": body, "tag": "TagA"} for body in bodies], "ack": "sync"},
    )
    return [result["message_id"] for result in answer.json()["results"]]


async def receive(client: Client, **fields: Any) -> list[dict[str, Any]]:
    answer = await client.post(
        f"{GROUP}/messages:receive", {"topic": "single", "client_id": "c-1"} | fields
    )
    assert answer.status == 200, answer.body
    return list(answer.json()["messages"])


async def pull(client: Client, topic: str = "single", query: str = "") -> list[dict[str, Any]]:
    name = topic.replace("%", "%25")
    answer = await client.get(
        f"/api/v1/topics/{name}/queues/0/messages?offset=0&max=1000&wait_ms=1000{query}"
    )
    assert answer.status == 200, answer.body
    return list(answer.json()["messages"])


async def nack(client: Client, message: dict[str, Any], **fields: Any) -> Response:
    return await client.post(NACK, {"receipt_handles": [message["receipt_handle"]]} | fields)


def failed(*offsets: int, **fields: Any) -> dict[str, Any]:
    messages = [{"topic": "single", "queue": 0, "offset": str(offset)} for offset in offsets]
    return {"client_id": "c-1", "messages": messages} | fields


# --- given back ----------------------------------------------------------------------------------


async def test_a_message_given_back_waits_as_the_groups_policy_says(
    client: Client, clock: ManualClock
) -> None:
    await send(client, "a")
    waits_ms = (10_000, 30_000, 60_000)
    for number, wait_ms in enumerate(waits_ms, 1):
        (message,) = await receive(client)
        assert message["delivery_attempt"] == number
        answer = await nack(client, message, reason="no stock")
        assert answer.json() == {"results": [{"index": 0, "status": "ok"}]}
        clock.now_ms += wait_ms - 1
        assert await receive(client) == []
        clock.now_ms += 1

    (message,) = await receive(client)
    assert (message["body"], message["delivery_attempt"]) == ("a", 4)


@pytest.mark.parametrize(
    ("asked", "wait_ms"),
    [
        ({"delay_ms": 0}, 0),
        ({"delay_ms": 70}, 70),
        ({"delay_level": 1}, 1_000),
        ({"delay_level": 2}, 5_000),
        ({"delay_level": 0}, 10_000),
        ({"delay_level": None, "delay_ms": None}, 10_000),
    ],
)
async def test_a_reader_may_say_how_long_a_message_waits(
    client: Client, clock: ManualClock, asked: dict[str, Any], wait_ms: int
) -> None:
    await send(client, "a")
    (message,) = await receive(client)
    await nack(client, message, **asked)

    clock.now_ms += max(wait_ms - 1, 0)
    early = [] if wait_ms == 0 else await receive(client)
    clock.now_ms += 1
    late = await receive(client)

    assert (early, len(late)) == ([], 1)


async def test_a_message_may_be_given_up_at_once(client: Client) -> None:
    (message_id,) = await send(client, "bad")
    (message,) = await receive(client)

    answer = await nack(client, message, delay_level=-1, reason="no such customer")

    assert answer.json() == {"results": [{"index": 0, "status": "ok"}]}
    assert await receive(client) == []
    (letter,) = await pull(client, "%DLQ%billing")
    assert (letter["topic"], letter["origin_topic"]) == ("%DLQ%billing", "single")
    assert letter["origin_message_id"] == message_id
    assert (letter["body"], letter["tag"], letter["reconsume_times"]) == ("bad", "TagA", 1)
    (attempt,) = letter["attempts"]
    assert (attempt["number"], attempt["at"]) == (1, NOW)
    assert attempt["reason"] == "no such customer"


async def test_a_message_that_failed_seventeen_times_is_a_dead_letter(client: Client) -> None:
    await send(client, "bad")
    for number in range(1, 18):
        (message,) = await receive(client)
        assert message["delivery_attempt"] == number
        assert (await nack(client, message, delay_ms=0)).status == 200

    assert await receive(client) == []
    (letter,) = await pull(client, "%DLQ%billing")
    assert letter["reconsume_times"] == 17


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"delay_ms": 1, "delay_level": 1}, "/delay_level"),
        ({"delay_ms": 0, "delay_level": -1}, "/delay_level"),
        ({"delay_level": -2}, "/delay_level"),
        ({"delay_level": "1"}, "/delay_level"),
        ({"delay_ms": -1}, "/delay_ms"),
        ({"delay_ms": 43_200_001}, "/delay_ms"),
        ({"reason": "x" * 1025}, "/reason"),
    ],
)
@pytest.mark.parametrize("path", [NACK, SEND_BACK])
async def test_a_bad_wish_for_a_retry_is_refused_with_its_place(
    client: Client, engine: Recorder, path: str, asked: dict[str, Any], pointer: str
) -> None:
    named = {"receipt_handles": ["h"]} if path == NACK else failed(0)

    answer = await client.post(path, named | asked)

    assert (answer.status, answer.code) == (422, "invalid_argument")
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert engine.calls == []


# --- sent back -----------------------------------------------------------------------------------


async def test_a_message_sent_back_comes_again_in_the_groups_retry_topic(
    client: Client, engine: Recorder, clock: ManualClock
) -> None:
    (message_id, _) = await send(client, "a", "b")

    answer = await client.post(SEND_BACK, failed(0, delay_ms=500, reason="no stock"))

    assert (answer.status, answer.json()) == (
        200,
        {
            "results": [
                {
                    "index": 0,
                    "status": 200,
                    "outcome": "retry",
                    "deliver_at": "2023-11-14T22:13:20.623Z",
                }
            ]
        },
    )
    clock.now_ms += 500
    (again,) = await pull(client, "%RETRY%billing")
    assert (again["topic"], again["origin_topic"]) == ("%RETRY%billing", "single")
    assert (again["origin_message_id"], again["body"]) == (message_id, "a")
    assert again["reconsume_times"] == 1
    assert again["attempts"] == [{"number": 1, "at": NOW, "reason": "no stock", "client_id": "c-1"}]
    assert "RETRY_HISTORY" not in again["properties"]


async def test_a_message_sent_back_is_not_given_to_its_group_again_and_to_others_as_ever(
    client: Client,
) -> None:
    await send(client, "a", "b")

    await client.post(SEND_BACK, failed(0))

    own = await pull(client, query="&group=billing&client_id=c-1")
    others = await pull(client, query="&group=others&client_id=c-1")
    nobodys = await pull(client)
    assert [message["body"] for message in own] == ["b"]
    assert [message["body"] for message in others] == ["a", "b"]
    assert [message["body"] for message in nobodys] == ["a", "b"]


async def test_without_a_wish_the_policy_says_when_and_the_levels_deliver_it(
    client: Client, engine: Recorder, clock: ManualClock
) -> None:
    await send(client, "a")

    answer = await client.post(SEND_BACK, failed(0))

    (result,) = answer.json()["results"]
    assert (result["outcome"], result["deliver_at"]) == ("retry", "2023-11-14T22:13:30.123Z")
    # What is not synced yet is nothing to deliver; a send that waits for the disk syncs all of it.
    orders = {"messages": [{"body": "x"}], "ack": "sync"}
    await client.post("/api/v1/topics/orders/messages", orders)
    clock.now_ms += 10_000
    delivered = await settled(engine.deliver_levels())
    committed = {"offsets": [{"topic": "single", "queue": 0, "offset": "1"}]}
    await client.post(f"{GROUP}/offsets:commit", committed)
    assert delivered.delivered == 1
    (again,) = await receive(client, wait_ms=5000)
    assert (again["topic"], again["body"]) == ("%RETRY%billing", "a")
    assert (again["reconsume_times"], again["delivery_attempt"]) == (1, 2)


async def test_asked_again_a_message_is_not_sent_back_twice(client: Client) -> None:
    await send(client, "a")
    await client.post(SEND_BACK, failed(0, delay_level=-1))

    answer = await client.post(SEND_BACK, failed(0, delay_level=-1))

    assert answer.status == 200
    (result,) = answer.json()["results"]
    assert (result["outcome"], result["deliver_at"]) == ("already", None)
    assert len(await pull(client, "%DLQ%billing")) == 1


async def test_what_the_queue_does_not_hold_is_told_apart(client: Client) -> None:
    await send(client, "a")

    answer = await client.post(SEND_BACK, failed(0, 7, delay_level=-1, reason="bad"))

    assert answer.status == 207
    assert answer.json()["results"] == [
        {"index": 0, "status": 200, "outcome": "dead_letter", "deliver_at": None},
        {"index": 1, "status": 410, "outcome": "gone", "deliver_at": None},
    ]


async def test_a_queue_of_another_member_is_not_sent_back(client: Client) -> None:
    await send(client, "a")
    lock = {"client_id": "c-2", "queues": [{"topic": "single", "queue": 0}]}
    locked = (await client.post(f"{GROUP}/locks:acquire", lock)).json()["locked"]
    document = failed(0)
    document["messages"][0]["epoch"] = locked[0]["epoch"] - 1

    stale = await client.post(SEND_BACK, document)
    unassigned = await client.post(SEND_BACK, failed(0, generation=7))

    assert (stale.status, stale.code) == (409, "lock_lost")
    assert (unassigned.status, unassigned.code) == (409, "stale_generation")
    assert [message["body"] for message in await pull(client, query="&group=others")] == ["a"]


@pytest.mark.parametrize(
    ("document", "code", "pointer"),
    [
        ({"client_id": "c"}, "invalid_argument", ""),
        (failed(), "invalid_argument", "/messages"),
        (failed(*range(1001)), "invalid_argument", "/messages"),
        (failed(0, client_id="", generation=1), "invalid_argument", "/client_id"),
        (failed(0, client_id="x" * 256), "invalid_argument", "/client_id"),
        (failed(0, generation=-1), "invalid_argument", "/generation"),
        (failed(0, reasons="x"), "invalid_argument", ""),
        (
            {"messages": [{"topic": "no topic!", "queue": 0, "offset": "0"}]},
            "invalid_name",
            "/messages/0/topic",
        ),
        (
            {"messages": [{"topic": "single", "queue": -1, "offset": "0"}]},
            "invalid_argument",
            "/messages/0/queue",
        ),
        (
            {"messages": [{"topic": "single", "queue": 0, "offset": "0\n"}]},
            "invalid_argument",
            "/messages/0/offset",
        ),
        (
            {"messages": [{"topic": "single", "queue": 0, "offset": str(2**63)}]},
            "invalid_argument",
            "/messages/0/offset",
        ),
        (
            {"messages": [{"topic": "single", "queue": 0}]},
            "invalid_argument",
            "/messages/0",
        ),
    ],
)
async def test_a_bad_list_of_failed_messages_is_refused_with_its_place(
    client: Client, engine: Recorder, document: object, code: str, pointer: str
) -> None:
    answer = await client.post(SEND_BACK, document)

    assert (answer.status, answer.code) == (422, code)
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert engine.calls == []


@pytest.mark.parametrize(("topic", "queue"), [("nothing", 0), ("single", 1)])
async def test_a_queue_that_does_not_exist_has_no_failures(
    client: Client, topic: str, queue: int
) -> None:
    answer = await client.post(
        SEND_BACK,
        {"client_id": "c", "messages": [{"topic": topic, "queue": queue, "offset": 0}]},
    )

    assert answer.status == 404


# --- what records say of their past --------------------------------------------------------------


async def written(client: Client, properties: dict[str, str]) -> dict[str, Any]:
    """Have a client write a record with these properties, and return it as JSON shows it."""
    record = encode_record(
        topic=b"single", queue=0, body=b"x", properties=encode_properties(properties)
    )
    sizes = np.array([len(record)], dtype=np.int32)
    answer = await client.post(
        "/api/v1/topics/single/messages?queue=0&ack=sync",
        body=wire.build_batch(record, sizes),
        headers={"content-type": RECORDS},
    )
    assert answer.status == 201, answer.body
    (message,) = await pull(client)
    return message


async def test_every_attempt_a_record_tells_of_is_shown(client: Client) -> None:
    history = [[16, 1_700_000_000_000, "größer", "c-1"], [17, 0, "", ""]]

    message = await written(client, {"RETRY_HISTORY": json.dumps(history)})

    assert message["attempts"] == [
        {
            "number": 16,
            "at": "2023-11-14T22:13:20.000Z",
            "reason": "größer",
            "client_id": "c-1",
        },
        {"number": 17, "at": None, "reason": "", "client_id": ""},
    ]


@pytest.mark.parametrize(
    "history",
    ["", "no json", "{}", "[1]", "[[1,2,3]]", '[["1",2,"",""]]', "[" * 5000, "[[1,2,null,null]]"],
)
async def test_what_is_no_history_is_not_shown_as_one(client: Client, history: str) -> None:
    message = await written(client, {"RETRY_HISTORY": history})

    assert "attempts" not in message
    assert message["body"] == "x"


async def test_a_time_beyond_every_calendar_is_none(client: Client) -> None:
    message = await written(client, {"RETRY_HISTORY": json.dumps([[1, 2**62, "r", "c"]])})

    assert message["attempts"][0]["at"] is None


async def test_a_message_that_never_failed_has_no_attempts(client: Client) -> None:
    message = await written(client, {"TAGS": "TagA"})

    assert not {"attempts", "origin_topic", "origin_message_id"} & set(message)
