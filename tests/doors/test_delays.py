"""Messages that wait: sent with a delay, cancelled, delivered before their time."""

import struct
from typing import Any

import numpy as np
import pytest

from apps.doors.http.app import create_app
from apps.doors.http.settings import DoorSettings
from apps.engine.codec import wire
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.types import AckMode, Special
from tests.doors.asgi import RECORDS, Client
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

MESSAGES = "/api/v1/topics/single/messages"
NOW_MS = 1_700_000_000_123
DAY_MS = 24 * 3_600_000


async def sent(client: Client, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Send messages, all of which must be stored, and return their results."""
    answer = await client.post(MESSAGES, {"messages": list(messages), "ack": "sync"})
    assert answer.status == 201, answer.body
    return list(answer.json()["results"])


async def bodies(client: Client, *, wait_ms: int = 0) -> list[str]:
    """Return the bodies in the queue, in order."""
    answer = await client.get(
        f"/api/v1/topics/single/queues/0/messages?offset=0&max=1000&wait_ms={wait_ms}"
    )
    return [message["body"] for message in answer.json()["messages"]]


async def test_a_delayed_message_has_a_due_time_and_a_handle_and_no_offset_yet(
    client: Client,
) -> None:
    (result,) = await sent(client, {"body": "later", "delay_ms": 1500})

    handle = result.pop("recall_handle")
    assert len(result.pop("message_id")) == 32
    assert result == {
        "index": 0,
        "status": 201,
        "queue": 0,
        "offset": None,
        "store_time": "2023-11-14T22:13:20.123Z",
        "deliver_at": "2023-11-14T22:13:21.623Z",
    }
    assert 0 < len(handle) <= 1024
    assert await bodies(client) == []


async def test_it_is_read_when_its_time_has_come(client: Client, clock: ManualClock) -> None:
    await sent(client, {"body": "later", "delay_ms": 1500, "tag": "TagA"})

    clock.now_ms += 1499
    early = await bodies(client)
    clock.now_ms += 1
    late = await bodies(client, wait_ms=5000)

    assert (early, late) == ([], ["later"])


@pytest.mark.parametrize(
    "time",
    [
        "2023-11-14T22:13:22.000Z",
        "2023-11-14T23:13:22+01:00",
        NOW_MS - 123 + 2000,
    ],
)
async def test_a_time_may_be_a_text_or_a_number(client: Client, time: object) -> None:
    (result,) = await sent(client, {"body": "x", "deliver_at": time})

    assert result["deliver_at"] == "2023-11-14T22:13:22.000Z"


async def test_a_delay_level_has_a_due_time_and_no_handle(
    client: Client, engine: Recorder, clock: ManualClock
) -> None:
    (first, clamped) = await sent(
        client, {"body": "x", "delay_level": 1}, {"body": "y", "delay_level": 999_999_999}
    )

    assert (first["recall_handle"], first["offset"]) == (None, None)
    assert first["deliver_at"] == "2023-11-14T22:13:21.123Z"
    assert clamped["deliver_at"] == "2023-11-15T00:13:20.123Z"


async def test_each_message_of_a_request_may_wait_in_its_own_way(
    client: Client, engine: Recorder, clock: ManualClock
) -> None:
    results = await sent(
        client,
        {"body": "now"},
        {"body": "level", "delay_level": 1},
        {"body": "soon", "delay_ms": 10},
        {"body": "then", "deliver_at": NOW_MS + 20},
        {"body": "at once"},
    )

    ((batches, _),) = engine.appends
    assert [(len(batch.sizes), batch.special) for batch in batches] == [
        (1, Special.NOTHING),
        (1, Special.DELAY),
        (2, Special.DELAY),
        (1, Special.NOTHING),
    ]
    assert [result["offset"] for result in results] == ["0", None, None, None, "1"]
    assert [bool(result["recall_handle"]) for result in results] == [
        False, False, True, True, False,
    ]  # fmt: skip
    assert ["deliver_at" in result for result in results] == [False, True, True, True, False]
    assert results[2]["recall_handle"] != results[3]["recall_handle"]
    assert await bodies(client, wait_ms=5000) == ["now", "at once"]


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        ({"delay_level": 1, "delay_ms": 1}, "/messages/1/delay_ms"),
        ({"delay_level": 1, "deliver_at": NOW_MS}, "/messages/1/deliver_at"),
        ({"deliver_at": NOW_MS, "delay_ms": 1}, "/messages/1/delay_ms"),
        ({"delay_level": 1, "deliver_at": NOW_MS, "delay_ms": 1}, "/messages/1/delay_ms"),
        ({"deliver_at": "tomorrow"}, "/messages/1/deliver_at"),
        ({"deliver_at": "2023-11-14T22:13:22"}, "/messages/1/deliver_at"),
        ({"deliver_at": "1969-12-31T23:59:59Z"}, "/messages/1/deliver_at"),
        ({"deliver_at": -1}, "/messages/1/deliver_at"),
        ({"deliver_at": 2**63}, "/messages/1/deliver_at"),
        ({"deliver_at": 1.5}, "/messages/1/deliver_at"),
        ({"delay_level": 0}, "/messages/1/delay_level"),
        ({"delay_level": -1}, "/messages/1/delay_level"),
        ({"delay_level": 10**9}, "/messages/1/delay_level"),
        ({"delay_ms": -1}, "/messages/1/delay_ms"),
        ({"delay_ms": "10"}, "/messages/1/delay_ms"),
        ({"delay_ms": 2**63}, "/messages/1/delay_ms"),
    ],
)
async def test_what_is_no_delay_is_refused_with_its_place_and_nothing_is_stored(
    client: Client, engine: Recorder, message: dict[str, Any], pointer: str
) -> None:
    answer = await client.post(MESSAGES, {"messages": [{"body": "a"}, {"body": "b"} | message]})

    assert (answer.status, answer.code) == (422, "invalid_argument")
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert engine.calls == []


async def test_a_delay_over_the_limit_is_told_apart_and_the_others_are_stored(
    client: Client,
) -> None:
    longest_ms = 366 * DAY_MS

    answer = await client.post(
        MESSAGES,
        {
            "messages": [
                {"body": "longest", "delay_ms": longest_ms},
                {"body": "longer", "delay_ms": longest_ms + 1},
                {"body": "then", "deliver_at": NOW_MS + longest_ms + 1},
                {"body": "now"},
            ]
        },
    )

    assert answer.status == 207
    results = answer.json()["results"]
    assert [result["status"] for result in results] == [201, 422, 422, 201]
    assert {results[n]["problem"]["code"] for n in (1, 2)} == {"delay_too_long"}
    assert await bodies(client, wait_ms=5000) == ["now"]


async def test_the_limit_of_a_delay_is_a_setting_of_the_door(
    engine: Recorder, clock: ManualClock
) -> None:
    client = Client(create_app(lambda: engine, DoorSettings(delay_ms_max=1000), clock=clock))

    answer = await client.post(MESSAGES, {"messages": [{"body": "x", "delay_ms": 1001}]})

    assert [result["status"] for result in answer.json()["results"]] == [422]
    assert engine.calls == []


async def test_a_delayed_message_sent_oneway_is_answered_without_a_handle(client: Client) -> None:
    answer = await client.post(
        MESSAGES, {"messages": [{"body": "x", "delay_ms": 10}], "ack": "oneway"}
    )

    assert (answer.status, answer.body) == (202, b"")


# --- cancelled, or delivered before their time ---------------------------------------------------


async def handle_of(client: Client, **message: Any) -> str:
    (result,) = await sent(client, {"body": "x", "delay_ms": 60_000} | message)
    return str(result["recall_handle"])


async def test_a_cancelled_message_is_never_delivered(client: Client, clock: ManualClock) -> None:
    handle = await handle_of(client)

    answer = await client.request("DELETE", f"/api/v1/delayed/{handle}")

    assert (answer.status, answer.json()) == (200, {"outcome": "cancelled"})
    clock.now_ms += 60_000
    await sent(client, {"body": "witness"})
    assert await bodies(client, wait_ms=5000) == ["witness"]


async def test_cancelling_twice_is_cancelling_once(client: Client) -> None:
    handle = await handle_of(client)

    answers = [await client.request("DELETE", f"/api/v1/delayed/{handle}") for _ in range(2)]

    assert [answer.status for answer in answers] == [200, 200]


async def test_a_message_that_was_delivered_cannot_be_cancelled(
    client: Client, clock: ManualClock
) -> None:
    handle = await handle_of(client)
    clock.now_ms += 60_000
    assert await bodies(client, wait_ms=5000) == ["x"]

    answer = await client.request("DELETE", f"/api/v1/delayed/{handle}")

    assert (answer.status, answer.code) == (409, "already_delivered")


async def test_a_message_may_be_delivered_before_its_time(
    client: Client, clock: ManualClock
) -> None:
    handle = await handle_of(client)

    now = await client.post(f"/api/v1/delayed/{handle}:deliver-now")
    again = await client.post(f"/api/v1/delayed/{handle}:deliver-now")

    assert (now.status, now.json()) == (200, {"outcome": "delivered"})
    assert again.status == 200
    clock.now_ms += 60_000
    assert await bodies(client, wait_ms=5000) == ["x"]


async def test_a_cancelled_message_cannot_be_delivered(client: Client) -> None:
    handle = await handle_of(client)
    await client.request("DELETE", f"/api/v1/delayed/{handle}")

    answer = await client.post(f"/api/v1/delayed/{handle}:deliver-now")

    assert (answer.status, answer.code) == (409, "already_cancelled")


@pytest.mark.parametrize(
    ("written", "is_asked"),
    [
        ("bm90aGluZw==", True),
        ("bm90aGluZw%3D%3D", True),
        ("A" * 1024, True),
        ("A" * 1025, False),
        ("a%20b", False),
        ("%FF", False),
        ("%2e%2e%2fetc", False),
        ("a+b", False),
    ],
)
@pytest.mark.parametrize("method", ["DELETE", "POST"])
async def test_a_handle_nobody_issued_is_unknown(
    client: Client, engine: Recorder, method: str, written: str, is_asked: bool
) -> None:
    suffix = ":deliver-now" if method == "POST" else ""

    answer = await client.request(method, f"/api/v1/delayed/{written}{suffix}")

    assert (answer.status, answer.code) == (404, "unknown_handle")
    assert len(engine.calls) == is_asked


async def test_a_page_of_a_stranger_cannot_have_a_message_delivered(
    client: Client, engine: Recorder
) -> None:
    answer = await client.post(
        "/api/v1/delayed/bm90aGluZw:deliver-now", headers={"origin": "https://evil.example"}
    )

    assert (answer.status, answer.code) == (415, "unsupported_media_type")
    assert engine.calls == []


# --- binary batches ------------------------------------------------------------------------------


def batch(*properties: dict[str, str]) -> bytes:
    records = [
        encode_record(
            topic=b"single", queue=0, body=b"x", properties=encode_properties(one), born_time_ms=1
        )
        for one in properties
    ]
    sizes = np.array([len(record) for record in records], dtype=np.int32)
    return wire.build_batch(b"".join(records), sizes)


async def posted(client: Client, body: bytes, **headers: str) -> Any:
    return await client.post(
        f"{MESSAGES}?queue=0&ack=sync", body=body, headers={"content-type": RECORDS} | headers
    )


async def test_a_delayed_binary_batch_is_answered_with_its_due_times(client: Client) -> None:
    answer = await posted(
        client, batch({"TIMER_DELAY_MS": "10"}, {"TIMER_DELIVER_MS": str(NOW_MS + 20)})
    )

    document = answer.json()
    assert answer.status == 201
    assert len(set(document.pop("recall_handles"))) == 2
    assert document == {
        "queue": 0,
        "offset": None,
        "count": 2,
        "store_time": "2023-11-14T22:13:20.123Z",
        "deliver_at": ["2023-11-14T22:13:20.133Z", "2023-11-14T22:13:20.143Z"],
    }


async def test_a_binary_batch_of_a_level_has_no_handles(client: Client) -> None:
    document = (await posted(client, batch({"DELAY": "1"}))).json()

    assert document["deliver_at"] == ["2023-11-14T22:13:21.123Z"]
    assert "recall_handles" not in document


async def test_the_binary_answer_to_a_delayed_batch_has_no_offset(client: Client) -> None:
    answer = await posted(client, batch({"TIMER_DELAY_MS": "10"}), accept=RECORDS)

    assert answer.body == b"MQA1" + struct.pack(">Iqq", 1, -1, NOW_MS)


async def test_the_engine_refuses_a_delay_over_its_limit_in_a_binary_batch(client: Client) -> None:
    answer = await posted(client, batch({"TIMER_DELAY_MS": str(400 * DAY_MS)}))

    assert (answer.status, answer.code) == (422, "delay_too_long")


async def test_a_delayed_send_waits_for_the_same_acknowledgement_as_any(
    client: Client, engine: Recorder
) -> None:
    await sent(client, {"body": "x", "delay_ms": 10})

    assert [ack for _, ack in engine.appends] == [AckMode.SYNC]
