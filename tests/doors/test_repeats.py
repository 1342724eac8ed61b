"""Sends that are repeated: a producer numbers its messages, and each is stored once."""

import struct
from typing import Any

import numpy as np
import pytest

from apps.engine.codec import wire
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.errors import SequenceTooOld
from apps.engine.types import Special
from tests.doors.asgi import RECORDS, Client
from tests.doors.recorder import Recorder

MESSAGES = "/api/v1/topics/single/messages"
ORDERS = "/api/v1/topics/orders/messages"


def numbered(*numbers: int, producer: str = "till-1", **fields: Any) -> list[dict[str, Any]]:
    return [
        {"body": f"{producer} {n}", "producer_id": producer, "producer_seq": n} | fields
        for n in numbers
    ]


async def results_of(
    client: Client, messages: list[dict[str, Any]], path: str = MESSAGES
) -> list[dict[str, Any]]:
    answer = await client.post(path, {"messages": messages, "ack": "sync"})
    assert answer.status == 201, answer.body
    return list(answer.json()["results"])


async def bodies(client: Client) -> list[str]:
    answer = await client.get(
        "/api/v1/topics/single/queues/0/messages?offset=0&max=1000&wait_ms=5000"
    )
    return [message["body"] for message in answer.json()["messages"]]


async def test_a_repeated_message_is_stored_once_and_told_where(client: Client) -> None:
    await results_of(client, [{"body": "first"}])
    (stored,) = await results_of(client, numbered(7))

    (repeated,) = await results_of(client, numbered(7))

    assert (stored["status"], stored["offset"]) == (201, "1")
    assert "repeat" not in stored
    assert repeated == {
        "index": 0,
        "status": 200,
        "message_id": None,
        "queue": 0,
        "offset": "1",
        "store_time": None,
        "recall_handle": None,
        "repeat": True,
    }
    assert await bodies(client) == ["first", "till-1 7"]


async def test_each_message_of_a_request_is_judged_for_itself(client: Client) -> None:
    await results_of(client, numbered(1, 2))

    results = await results_of(
        client, [*numbered(2, 3), {"body": "plain"}, *numbered(1, producer="till-2")]
    )

    assert [result["status"] for result in results] == [200, 201, 201, 201]
    assert [result["offset"] for result in results] == ["1", "2", "3", "4"]
    assert await bodies(client) == ["till-1 1", "till-1 2", "till-1 3", "plain", "till-2 1"]


async def test_a_repeat_for_another_queue_is_told_the_first_one(client: Client) -> None:
    await results_of(client, numbered(1, queue=3), ORDERS)

    (repeated,) = await results_of(client, numbered(1, queue=0), ORDERS)

    assert (repeated["queue"], repeated["offset"], repeated["repeat"]) == (3, "0", True)


async def test_only_batches_with_a_number_are_marked_for_the_engine(
    client: Client, engine: Recorder
) -> None:
    await results_of(client, [{"body": "plain", "queue": 0}, *numbered(1, queue=1)], ORDERS)

    ((batches, _),) = engine.appends
    assert [batch.special for batch in batches] == [Special.NOTHING, Special.SEQUENCE]


async def test_a_delayed_message_is_repeated_as_any_other(client: Client) -> None:
    (stored,) = await results_of(client, numbered(1, delay_ms=60_000))

    (repeated,) = await results_of(client, numbered(1, delay_ms=60_000))

    assert stored["recall_handle"]
    assert (repeated["status"], repeated["repeat"], repeated["offset"]) == (200, True, None)
    assert repeated["recall_handle"] == stored["recall_handle"]
    assert repeated["deliver_at"] == stored["deliver_at"]


async def test_new_messages_among_repeated_ones_have_their_own_due_times(client: Client) -> None:
    await results_of(client, numbered(1, delay_ms=60_000))

    repeated, second, third = await results_of(
        client,
        [*numbered(1, delay_ms=60_000), *numbered(2, delay_ms=1000), *numbered(3, delay_ms=2000)],
    )

    assert (repeated["status"], repeated["offset"]) == (200, None)
    assert second["deliver_at"] == "2023-11-14T22:13:21.123Z"
    assert third["deliver_at"] == "2023-11-14T22:13:22.123Z"
    assert second["recall_handle"] != third["recall_handle"]


@pytest.mark.parametrize("producer_id", ["", "x" * 256])
async def test_a_producers_name_has_a_length(
    client: Client, engine: Recorder, producer_id: str
) -> None:
    answer = await client.post(MESSAGES, {"messages": numbered(1, producer=producer_id)})

    assert (answer.status, answer.code) == (422, "invalid_argument")
    assert answer.json()["errors"][0]["pointer"] == "/messages/0/producer_id"
    assert engine.calls == []


async def test_a_number_below_what_is_remembered_is_a_conflict(
    client: Client, engine: Recorder
) -> None:
    engine.failure = SequenceTooOld("5 is below what is remembered of till-1")

    answer = await client.post(MESSAGES, {"messages": numbered(5)})

    assert (answer.status, answer.code) == (409, "sequence_too_old")
    assert answer.json()["retriable"] is False
    assert engine.failure_count == 1


# --- binary batches ------------------------------------------------------------------------------


def batch(*numbers: int) -> bytes:
    records = [
        encode_record(
            topic=b"single",
            queue=0,
            body=b"%d" % number,
            properties=encode_properties({"PRODUCER_ID": "till-1", "PRODUCER_SEQ": str(number)}),
        )
        for number in numbers
    ]
    sizes = np.array([len(record) for record in records], dtype=np.int32)
    return wire.build_batch(b"".join(records), sizes)


async def posted(client: Client, body: bytes, **headers: str) -> Any:
    return await client.post(
        f"{MESSAGES}?queue=0&ack=sync", body=body, headers={"content-type": RECORDS} | headers
    )


async def test_a_repeated_binary_batch_is_answered_as_the_first_one_was(client: Client) -> None:
    await results_of(client, [{"body": "first"}])
    first = await posted(client, batch(1, 2, 3), accept=RECORDS)

    in_binary = await posted(client, batch(1, 2, 3), accept=RECORDS)
    in_json = await posted(client, batch(1, 2, 3))

    assert first.status == in_binary.status == in_json.status == 201
    assert first.body[:16] == in_binary.body[:16] == b"MQA1" + struct.pack(">Iq", 3, 1)
    assert in_json.json()["repeat"] is True
    assert (in_json.json()["offset"], in_json.json()["count"]) == ("1", 3)
    assert await bodies(client) == ["first", "1", "2", "3"]


async def test_the_answer_to_a_new_binary_batch_says_nothing_of_repeats(client: Client) -> None:
    answer = await posted(client, batch(1))

    assert set(answer.json()) == {"queue", "offset", "count", "store_time"}
