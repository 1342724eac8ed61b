"""GET /topics/{topic}/messages: what is found, how it is shown, and what is refused."""

from typing import Any

import pytest

from apps.doors.http import times
from tests.doors.asgi import Client
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

ORDERS = "/api/v1/topics/orders/messages"
STARTED_MS = 1_700_000_000_123


async def send(client: Client, *messages: dict[str, Any], topic: str = "orders") -> list[str]:
    """Send messages one after the other, and return their ids."""
    ids = []
    for message in messages:
        answer = await client.post(
            f"/api/v1/topics/{topic}/messages", {"messages": [message], "ack": "sync"}
        )
        assert answer.status == 201, answer.body
        ids.append(answer.json()["results"][0]["message_id"])
    return ids


async def find(client: Client, query: str, path: str = ORDERS) -> Any:
    answer = await client.get(f"{path}?{query}")
    assert answer.status == 200, answer.body
    return answer.json()


async def test_a_key_finds_messages_with_all_that_other_answers_show(client: Client) -> None:
    message = {"body": "zwölf", "keys": ["o-1", "钥匙"], "tag": "paid", "properties": {"a": "b"}}
    (sent,) = await send(client, message | {"queue": 2})
    await send(client, {"body": "other", "keys": ["o-2"]})

    found = await find(client, "key=%E9%92%A5%E5%8C%99")
    pulled = await client.get("/api/v1/topics/orders/queues/2/messages?offset=0")

    assert found == {
        "items": pulled.json()["messages"],
        "truncated": False,
        "scan_incomplete": False,
        "next_cursor": None,
    }
    assert found["items"][0]["message_id"] == sent
    assert found["items"][0]["body"] == "zwölf"


async def test_bytes_come_back_as_they_were_sent(client: Client) -> None:
    await send(client, {"body_base64": "/wD+", "keys": ["k"]})

    (item,) = (await find(client, "key=k"))["items"]

    assert item["body_base64"] == "/wD+"
    assert "body" not in item


async def test_an_id_finds_one_message(client: Client) -> None:
    ids = await send(client, *({"body": str(number)} for number in range(5)))

    (item,) = (await find(client, f"message_id={ids[3]}"))["items"]

    assert item["body"] == "3"
    assert (await find(client, f"message_id={ids[3]}", "/api/v1/topics/single/messages"))[
        "items"
    ] == []


async def test_an_offset_id_finds_what_lies_there(client: Client) -> None:
    await send(client, {"body": "1"})

    assert (await find(client, f"offset_id={'f' * 32}"))["items"] == []


async def test_a_place_finds_the_message_there(client: Client) -> None:
    await send(client, {"body": "a", "queue": 1}, {"body": "b", "queue": 1})

    (item,) = (await find(client, "queue=1&offset=1"))["items"]

    assert item["body"] == "b"


@pytest.mark.parametrize("is_text", [True, False])
async def test_times_bound_what_is_found(client: Client, clock: ManualClock, is_text: bool) -> None:
    for number in range(4):
        await send(client, {"body": str(number), "tag": "t"})
        clock.now_ms += 1000
    start, stop = STARTED_MS + 1000, STARTED_MS + 3000
    query = f"from={start}&to={stop}"
    if is_text:
        query = f"from={times.rfc3339(start)}&to={times.rfc3339(stop)}"

    found = await find(client, f"{query}&tag=t")

    assert [item["body"] for item in found["items"]] == ["2", "1"]


async def test_more_than_was_asked_for_is_said(client: Client) -> None:
    await send(client, *({"body": str(number), "queue": number % 4} for number in range(6)))

    found = await find(client, "max=4")

    assert [item["body"] for item in found["items"]] == ["5", "4", "3", "2"]
    assert found["truncated"] is True


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("from=yesterday", "?from"),
        ("to=-1", "?to"),
        ("max=0", "?max"),
        ("max=257", "?max"),
        ("queue=x", "?queue"),
        ("queue=0&offset=-1", "?offset"),
        ("keys=a", ""),
    ],
)
async def test_what_cannot_be_read_is_refused(client: Client, query: str, pointer: str) -> None:
    answer = await client.get(f"{ORDERS}?{query}")

    assert (answer.status, answer.code) == (422, "invalid_argument")
    assert answer.json()["errors"][0]["pointer"] == pointer


async def test_what_the_engine_refuses_is_told(client: Client, engine: Recorder) -> None:
    assert (await client.get(f"{ORDERS}?offset=1")).code == "invalid_argument"
    assert (await client.get("/api/v1/topics/none/messages?key=a")).code == "unknown_topic"
    assert (await client.get(f"{ORDERS}?queue=4")).code == "unknown_queue"
    assert engine.calls == ["search"] * 3


async def test_a_cursor_leads_through_all_that_a_condition_meets(client: Client) -> None:
    await send(client, *({"body": str(n), "properties": {"n": str(n)}} for n in range(9)))
    query = "filter=n%20%3C%206&max=4"

    first = await find(client, query)
    second = await find(client, f"{query}&cursor={first['next_cursor']}")

    assert [item["body"] for item in first["items"]] == ["5", "4", "3", "2"]
    assert first["truncated"]
    assert [item["body"] for item in second["items"]] == ["1", "0"]
    assert (second["truncated"], second["next_cursor"]) == (False, None)


async def test_a_condition_that_is_none_is_refused(client: Client) -> None:
    answer = await client.get(f"{ORDERS}?filter=n%20%3C")

    assert (answer.status, answer.json()["code"]) == (400, "invalid_filter")
