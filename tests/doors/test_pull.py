"""Reading a queue from an offset: statuses, limits, filters, waiting."""

import asyncio
import struct
from urllib.parse import quote

import pytest

from apps.engine.codec import wire
from apps.engine.codec.record import decode_record
from tests.doors.asgi import RECORDS, Client, NoAnswer
from tests.doors.recorder import Recorder

SEND = "/api/v1/topics/single/messages"
PULL = "/api/v1/topics/single/queues/0/messages"


async def send(client: Client, *bodies: str, tag: str | None = None) -> None:
    answer = await client.post(
        SEND, {"messages": [{"body": body, "tag": tag} for body in bodies], "ack": "sync"}
    )
    assert answer.status == 201


async def until_parked(engine: Recorder) -> None:
    while engine.status().parked == 0:
        await asyncio.sleep(0)


async def test_a_pull_answers_messages_and_where_to_read_on(client: Client) -> None:
    await send(client, "a", "b", "c")

    answer = await client.get(f"{PULL}?offset=1&max=1")

    found = answer.json()
    assert [(message["offset"], message["body"]) for message in found.pop("messages")] == [
        ("1", "b")
    ]
    assert found == {"status": "FOUND", "next_offset": "2", "min_offset": "0", "max_offset": "3"}


async def test_the_end_of_a_queue_has_nothing_new(client: Client) -> None:
    await send(client, "a")

    found = (await client.get(f"{PULL}?offset=1")).json()

    assert (found["status"], found["messages"], found["next_offset"]) == ("NO_NEW_MSG", [], "1")


async def test_an_offset_beyond_the_end_is_answered_with_the_right_one(client: Client) -> None:
    await send(client, "a")

    answer = await client.get(f"{PULL}?offset=9223372036854775807")

    assert answer.status == 200
    assert answer.json()["status"] == "OFFSET_ILLEGAL"
    assert answer.json()["next_offset"] == "1"


async def test_a_binary_pull_has_the_records_as_they_are_stored(client: Client) -> None:
    await send(client, "a", "b")

    answer = await client.get(f"{PULL}?offset=0", headers={"accept": f"{RECORDS}, */*"})

    assert answer.headers["content-type"] == RECORDS
    assert answer.body[:32] == b"MQP1" + struct.pack(">Iqqq", 0, 2, 0, 2)
    payload, sizes = wire.parse_batch(answer.body[32:])
    first = decode_record(payload, 0)
    second = decode_record(payload, int(sizes[0]))
    assert [(first.queue_offset, first.body), (second.queue_offset, second.body)] == [
        (0, b"a"),
        (1, b"b"),
    ]


async def test_a_binary_pull_of_nothing_has_an_empty_batch(client: Client) -> None:
    answer = await client.get(f"{PULL}?offset=0", headers={"accept": RECORDS})

    assert answer.body[:32] == b"MQP1" + struct.pack(">Iqqq", 1, 0, 0, 0)
    assert wire.parse_batch(answer.body[32:])[1].tolist() == []


async def test_a_filter_takes_the_tags_it_names(client: Client) -> None:
    await send(client, "a", tag="TagA")
    await send(client, "b", tag="TagB")
    await send(client, "c", tag="TagC")
    await send(client, "d")

    found = (await client.get(f"{PULL}?offset=0&filter=TagA%20%7C%7C%20TagC")).json()

    assert [message["body"] for message in found["messages"]] == ["a", "c"]
    assert (found["status"], found["next_offset"]) == ("FOUND", "4")


async def test_a_tag_that_only_shares_the_hash_is_left_out(client: Client) -> None:
    await send(client, "wanted", tag="Aa")
    await send(client, "collision", tag="BB")

    found = (await client.get(f"{PULL}?offset=0&filter=Aa")).json()

    assert [message["body"] for message in found["messages"]] == ["wanted"]


async def test_when_only_hashes_match_there_is_no_matched_message(client: Client) -> None:
    await send(client, "collision", tag="BB")

    found = (await client.get(f"{PULL}?offset=0&filter=Aa")).json()

    assert (found["status"], found["messages"]) == ("NO_MATCHED_MSG", [])
    assert found["next_offset"] == "1"


async def send_priced(client: Client) -> None:
    """Send two messages of one tag that differ in a property; their tag shares a hash with `Aa`."""
    messages = [
        {"body": body, "tag": "BB", "properties": {"price": price}}
        for body, price in (("cheap", "5"), ("dear", "500"))
    ]
    answer = await client.post(SEND, {"messages": messages, "ack": "sync"})
    assert answer.status == 201


async def test_a_condition_on_properties_takes_what_it_is_true_for(client: Client) -> None:
    await send_priced(client)

    query = f"offset=0&filter_type=SQL92&filter={quote('price > 100')}"
    found = (await client.get(f"{PULL}?{query}")).json()

    assert [message["body"] for message in found["messages"]] == ["dear"]
    assert (found["status"], found["next_offset"]) == ("FOUND", "2")


async def test_a_condition_is_never_taken_for_a_tag(client: Client) -> None:
    """`Aa` is a property here. The tags `BB` and `Aa` have one hash, and none is a collision."""
    await send_priced(client)

    query = f"offset=0&filter_type=SQL92&filter={quote('Aa IS NULL')}"
    found = (await client.get(f"{PULL}?{query}")).json()

    assert [message["body"] for message in found["messages"]] == ["cheap", "dear"]


@pytest.mark.parametrize(
    ("filter_type", "text"),
    [("SQL92", "price >"), ("SQL92", ""), ("SQL92", "price LIKE 'x'"), ("TAG", "A || || B")],
)
@pytest.mark.parametrize("accept", ["application/json", RECORDS])
async def test_what_is_no_filter_is_refused(
    client: Client, filter_type: str, text: str, accept: str
) -> None:
    await send_priced(client)

    query = f"offset=0&filter_type={filter_type}&filter={quote(text)}"
    answer = await client.get(f"{PULL}?{query}", headers={"accept": accept})

    assert (answer.status, answer.code) == (400, "invalid_filter")
    assert answer.json()["detail"].startswith("at character ")


async def test_a_pull_of_a_group_that_nobody_decided_about_needs_no_lock(client: Client) -> None:
    await send(client, "a")

    found = (await client.get(f"{PULL}?offset=0&group=billing&client_id=c")).json()

    assert [message["body"] for message in found["messages"]] == ["a"]


async def test_the_byte_limit_still_lets_one_message_through(client: Client) -> None:
    await send(client, "x" * 500, "y" * 500)

    found = (await client.get(f"{PULL}?offset=0&max_bytes=1")).json()

    assert [message["offset"] for message in found["messages"]] == ["0"]
    assert found["next_offset"] == "1"


async def test_a_json_pull_is_at_most_a_thousand_messages(client: Client) -> None:
    await send(client, *["x"] * 1000)
    await send(client, "one more")

    found = (await client.get(f"{PULL}?offset=0&max=16384")).json()

    assert len(found["messages"]) == 1000
    assert found["next_offset"] == "1000"


async def test_a_parked_pull_is_answered_when_a_message_comes(
    client: Client, engine: Recorder
) -> None:
    pull = asyncio.create_task(client.get(f"{PULL}?offset=0&wait_ms=30000"))
    await until_parked(engine)

    await send(client, "at last")

    found = (await pull).json()
    assert [message["body"] for message in found["messages"]] == ["at last"]


async def test_a_parked_pull_ends_with_its_time(client: Client) -> None:
    answer = await client.get(f"{PULL}?offset=0&wait_ms=3")

    assert answer.json()["status"] == "NO_NEW_MSG"


async def test_a_client_that_leaves_takes_its_parked_pull_along(
    client: Client, engine: Recorder
) -> None:
    gone = asyncio.Event()
    pull = asyncio.create_task(client.get(f"{PULL}?offset=0&wait_ms=30000", gone=gone))
    await until_parked(engine)

    gone.set()

    with pytest.raises(NoAnswer):
        await pull
    assert engine.status().parked == 0


async def test_a_server_that_stops_takes_its_parked_pulls_along(
    client: Client, engine: Recorder
) -> None:
    pull = asyncio.create_task(client.get(f"{PULL}?offset=0&wait_ms=30000"))
    await until_parked(engine)

    pull.cancel()

    with pytest.raises(asyncio.CancelledError):
        await pull
    await asyncio.sleep(0)
    assert engine.status().parked == 0


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("", "?offset"),
        ("offset=", "?offset"),
        ("offset=-1", "?offset"),
        ("offset=+1", "?offset"),
        ("offset=1.0", "?offset"),
        ("offset=%D9%A3", "?offset"),
        ("offset=0x10", "?offset"),
        ("offset=9223372036854775808", "?offset"),
        ("offset=" + "9" * 5000, "?offset"),
        ("offset=0&offset=1", "?offset"),
        ("offset=0&max=0", "?max"),
        ("offset=0&max=16385", "?max"),
        ("offset=0&max_bytes=0", "?max_bytes"),
        ("offset=0&max_bytes=16777217", "?max_bytes"),
        ("offset=0&wait_ms=30001", "?wait_ms"),
        ("offset=0&filter=%C3", "?filter"),
        ("offset=0&filter=" + "t" * 4097, "?filter"),
        ("offset=0&wait=5", ""),
        ("offset=0&filter_type=sql92", "?filter_type"),
        ("offset=0&filter_type=", "?filter_type"),
        ("offset=0&group=a.b", "?group"),
        ("offset=0&group=", "?group"),
        ("offset=0&client_id=c", "?client_id"),
        ("offset=0&epoch=1", "?epoch"),
        ("offset=0&generation=1", "?generation"),
        ("offset=0&group=g&generation=1", "?client_id"),
        ("offset=0&group=g&client_id=" + "c" * 256, "?client_id"),
        ("offset=0&group=g&client_id=c&generation=-1", "?generation"),
        ("offset=0&group=g&client_id=c&generation=9007199254740992", "?generation"),
        ("offset=0&group=g&client_id=c&epoch=", "?epoch"),
        ("offset=0&group=g&client_id=c&epoch=1&epoch=2", "?epoch"),
    ],
)
async def test_a_bad_query_names_the_parameter(
    client: Client, engine: Recorder, query: str, pointer: str
) -> None:
    answer = await client.get(f"{PULL}?{query}")

    assert answer.status == 422
    assert answer.code == ("invalid_name" if pointer == "?group" else "invalid_argument")
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert engine.calls == []


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/topics/nowhere/queues/0/messages", 404, "unknown_topic"),
        ("/api/v1/topics/single/queues/1/messages", 404, "unknown_queue"),
        ("/api/v1/topics/single/queues/9999999999/messages", 404, "unknown_queue"),
        ("/api/v1/topics/single/queues/99999999999/messages", 422, "invalid_argument"),
        ("/api/v1/topics/single/queues/-1/messages", 422, "invalid_argument"),
        ("/api/v1/topics/single/queues/%D9%A3/messages", 422, "invalid_argument"),
        ("/api/v1/topics/sin%20gle/queues/0/messages", 422, "invalid_name"),
    ],
)
async def test_a_bad_address_is_refused(client: Client, path: str, status: int, code: str) -> None:
    answer = await client.get(f"{path}?offset=0")

    assert (answer.status, answer.code) == (status, code)
