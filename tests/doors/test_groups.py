"""Receive, ack, nack, extend and offset commits, as a consumer sees them."""

import asyncio
import struct
from typing import Any

import pytest

from apps.engine.codec import wire
from apps.engine.codec.record import decode_record
from tests.doors.asgi import RECORDS, Client, NoAnswer, Response
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

GROUP = "/api/v1/groups/billing"


async def send(
    client: Client, *bodies: str, topic: str = "single", queue: int = 0, tag: str | None = None
) -> None:
    messages = [{"body": body, "tag": tag, "queue": queue} for body in bodies]
    answer = await client.post(
        f"/api/v1/topics/{topic}/messages", {"messages": messages, "ack": "sync"}
    )
    assert answer.status == 201


async def receive(client: Client, **fields: object) -> list[dict[str, Any]]:
    answer = await client.post(f"{GROUP}/messages:receive", {"topic": "single"} | fields)
    assert answer.status == 200
    return list(answer.json()["messages"])


async def settle(client: Client, verb: str, *handles: str, **fields: object) -> Response:
    return await client.post(
        f"{GROUP}/messages:{verb}", {"receipt_handles": list(handles)} | fields
    )


async def test_a_received_message_tells_its_handle_attempt_and_deadline(client: Client) -> None:
    await send(client, "a", tag="TagA")

    (message,) = await receive(client, invisible_ms=5000, client_id="worker@1")

    assert (message["body"], message["tag"], message["offset"]) == ("a", "TagA", "0")
    assert message["receipt_handle"].endswith(":0")
    assert message["delivery_attempt"] == 1
    assert message["invisible_until"] == "2023-11-14T22:13:25.123Z"


async def test_when_nothing_came_the_list_is_empty(client: Client) -> None:
    answer = await client.post(f"{GROUP}/messages:receive", {"topic": "single"})

    assert answer.json() == {"messages": [], "blocked_by_lock": []}


async def test_a_received_message_is_hidden_from_the_group(client: Client) -> None:
    await send(client, "a", "b")

    first = await receive(client, max=1)
    second = await receive(client)

    assert [message["body"] for message in first + second] == ["a", "b"]


async def test_an_acknowledged_message_never_comes_back(client: Client, clock: ManualClock) -> None:
    await send(client, "a")
    (message,) = await receive(client)

    answer = await settle(client, "ack", message["receipt_handle"])

    assert (answer.status, answer.json()) == (200, {"results": [{"index": 0, "status": "ok"}]})
    clock.now_ms += 3_600_000
    assert await receive(client) == []


async def test_a_run_of_messages_is_settled_by_one_handle(
    client: Client, clock: ManualClock
) -> None:
    await send(client, *"abcde")
    messages = await receive(client)
    token = messages[0]["receipt_handle"].partition(":")[0]

    answer = await settle(client, "ack", f"{token}:0-3")

    assert answer.json() == {"results": [{"index": 0, "status": "ok"}]}
    clock.now_ms += 3_600_000
    assert [message["body"] for message in await receive(client)] == ["e"]


async def test_a_message_given_back_comes_again_with_the_next_attempt(client: Client) -> None:
    await send(client, "a")
    (message,) = await receive(client)

    answer = await settle(client, "nack", message["receipt_handle"], delay_ms=0, reason="now")

    assert answer.json() == {"results": [{"index": 0, "status": "ok"}]}
    (again,) = await receive(client)
    assert (again["body"], again["delivery_attempt"]) == ("a", 2)


async def test_a_message_given_back_for_later_waits_that_long(
    client: Client, clock: ManualClock
) -> None:
    await send(client, "a")
    (message,) = await receive(client)
    await settle(client, "nack", message["receipt_handle"], delay_ms=500)

    early = await receive(client)
    clock.now_ms += 501
    late = await receive(client)

    assert early == []
    assert [message["body"] for message in late] == ["a"]


async def test_an_extension_answers_a_new_handle_and_voids_the_old(
    client: Client, clock: ManualClock
) -> None:
    await send(client, "a")
    (message,) = await receive(client, invisible_ms=1000)

    answer = await settle(client, "extend", message["receipt_handle"], invisible_ms=9000)

    assert answer.status == 200
    (result,) = answer.json()["results"]
    assert (result["index"], result["status"]) == (0, "ok")
    clock.now_ms += 5000
    old = await settle(client, "ack", message["receipt_handle"])
    new = await settle(client, "ack", result["receipt_handle"])
    assert (old.status, new.status) == (207, 200)


async def test_each_bad_handle_has_its_problem_and_the_good_ones_are_settled(
    client: Client, clock: ManualClock
) -> None:
    await send(client, "late")
    (late,) = await receive(client, invisible_ms=1000)
    clock.now_ms += 1001
    await send(client, "good", queue=0, topic="%25a%7Cb%25billing")
    (good,) = await receive(client, topic="%a|b%billing")

    answer = await settle(
        client, "ack", late["receipt_handle"], "no handle", good["receipt_handle"]
    )

    assert answer.status == 207
    expired, invalid, ok = answer.json()["results"]
    assert (expired["index"], expired["status"]) == (0, "expired")
    assert (expired["problem"]["status"], expired["problem"]["code"]) == (410, "handle_expired")
    assert (invalid["index"], invalid["status"]) == (1, "invalid")
    assert (invalid["problem"]["status"], invalid["problem"]["code"]) == (422, "invalid_handle")
    assert ok == {"index": 2, "status": "ok"}


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
async def test_a_handle_of_another_group_is_invalid(client: Client, verb: str) -> None:
    await send(client, "a")
    (message,) = await receive(client)

    answer = await client.post(
        f"/api/v1/groups/other/messages:{verb}", {"receipt_handles": [message["receipt_handle"]]}
    )

    assert answer.status == 207
    assert answer.json()["results"][0]["status"] == "invalid"


async def test_a_tag_that_only_shares_the_hash_is_settled_and_not_shown(
    client: Client, clock: ManualClock
) -> None:
    await send(client, "wanted", tag="Aa")
    await send(client, "collision", tag="BB")

    shown = await receive(client, filter="Aa", invisible_ms=1000)

    assert [message["body"] for message in shown] == ["wanted"]
    clock.now_ms += 1001
    again = await receive(client, filter="Aa || BB")
    assert [message["body"] for message in again] == ["wanted"]


async def test_a_receive_may_put_conditions_on_properties(
    client: Client, clock: ManualClock
) -> None:
    messages = [
        {"body": body, "tag": "BB", "properties": {"price": price}, "queue": 0}
        for body, price in (("cheap", "5"), ("dear", "500"))
    ]
    await client.post("/api/v1/topics/single/messages", {"messages": messages, "ack": "sync"})

    found = await receive(client, filter="price > 100", filter_type="SQL92", invisible_ms=1000)

    assert [message["body"] for message in found] == ["dear"]
    clock.now_ms += 1001
    again = await receive(client)
    assert [message["body"] for message in again] == ["dear"]


@pytest.mark.parametrize(
    ("filter_type", "text"), [("SQL92", "price >"), ("SQL92", ""), ("TAG", "A || || B")]
)
async def test_a_receive_with_what_is_no_filter_is_refused(
    client: Client, engine: Recorder, filter_type: str, text: str
) -> None:
    await send(client, "a")

    answer = await client.post(
        f"{GROUP}/messages:receive", {"topic": "single", "filter_type": filter_type, "filter": text}
    )

    assert (answer.status, answer.code) == (400, "invalid_filter")
    assert engine.status().leases == 0


async def test_a_receive_may_name_several_topics(client: Client) -> None:
    await send(client, "a")
    await send(client, "b", topic="orders", queue=3)

    answer = await client.post(f"{GROUP}/messages:receive", {"topics": ["single", "orders"]})

    found = {(message["topic"], message["body"]) for message in answer.json()["messages"]}
    assert found == {("single", "a"), ("orders", "b")}


async def test_a_receive_may_ask_for_high_queues_first(client: Client) -> None:
    for queue in (1, 3, 0, 2):
        await send(client, str(queue), topic="orders", queue=queue)

    messages = await receive(client, topic="orders", high_queue_first=True)

    assert [message["body"] for message in messages] == ["3", "2", "1", "0"]


async def test_an_ordered_receive_tells_which_queues_are_held_back(client: Client) -> None:
    await send(client, "a", "b", topic="orders", queue=2)
    first = await client.post(
        f"{GROUP}/messages:receive", {"topic": "orders", "ordered": True, "max": 1}
    )

    second = await client.post(f"{GROUP}/messages:receive", {"topic": "orders", "ordered": True})

    assert [message["body"] for message in first.json()["messages"]] == ["a"]
    assert second.json() == {"messages": [], "blocked_by_lock": [2]}


async def test_a_binary_receive_has_the_lease_and_the_records(client: Client) -> None:
    await send(client, "a", "b")

    answer = await client.post(
        f"{GROUP}/messages:receive", {"topic": "single"}, headers={"accept": RECORDS}
    )

    body = answer.body
    assert body[:12] == b"MQR1" + struct.pack(">II", 1, 0)
    (length,) = struct.unpack_from(">H", body, 12)
    token = body[14 : 14 + length].decode()
    at = 14 + length
    assert body[at : at + 8] == b"\x00\x06single"
    queue, attempt, until_ms = struct.unpack_from(">IIq", body, at + 8)
    assert (queue, attempt, until_ms) == (0, 1, 1_700_000_060_123)
    payload, _ = wire.parse_batch(body[at + 24 :])
    offset = decode_record(payload, 0).queue_offset
    settled = await settle(client, "ack", f"{token}:{offset}", f"{token}:1")
    assert settled.status == 200


async def test_a_json_receive_is_at_most_a_thousand_messages(client: Client) -> None:
    await send(client, *["x"] * 1000)
    await send(client, "one more")

    messages = await receive(client, max=16_384)

    assert len(messages) == 1000


async def test_a_parked_receive_is_answered_when_a_message_comes(
    client: Client, engine: Recorder
) -> None:
    task = asyncio.create_task(receive(client, wait_ms=30_000))
    while engine.status().parked == 0:
        await asyncio.sleep(0)

    await send(client, "at last")

    assert [message["body"] for message in await task] == ["at last"]


async def test_a_client_that_leaves_takes_its_parked_receive_along(
    client: Client, engine: Recorder
) -> None:
    gone = asyncio.Event()
    task = asyncio.create_task(
        client.post(f"{GROUP}/messages:receive", {"topic": "single", "wait_ms": 30_000}, gone=gone)
    )
    while engine.status().parked == 0:
        await asyncio.sleep(0)

    gone.set()

    with pytest.raises(NoAnswer):
        await task
    assert engine.status().parked == 0
    await send(client, "a")
    assert [message["body"] for message in await receive(client)] == ["a"]


async def test_what_is_handed_out_while_the_client_leaves_is_given_back(client: Client) -> None:
    await send(client, "a", "b")
    gone = asyncio.Event()
    gone.set()

    with pytest.raises(NoAnswer):
        await client.post(
            f"{GROUP}/messages:receive", {"topic": "single", "wait_ms": 30_000}, gone=gone
        )

    assert [message["body"] for message in await receive(client)] == ["a", "b"]


@pytest.mark.parametrize("offset", ["2", 2])
async def test_a_commit_sets_where_a_group_goes_on(client: Client, offset: object) -> None:
    await send(client, "a", "b", "c")

    answer = await client.post(
        f"{GROUP}/offsets:commit",
        {"client_id": "c", "offsets": [{"topic": "single", "queue": 0, "offset": offset}]},
    )

    assert (answer.status, answer.body) == (204, b"")
    assert [message["body"] for message in await receive(client)] == ["c"]


async def test_a_commit_with_one_bad_offset_changes_nothing(
    client: Client, engine: Recorder
) -> None:
    await send(client, "a")

    answer = await client.post(
        f"{GROUP}/offsets:commit",
        {
            "offsets": [
                {"topic": "single", "queue": 0, "offset": "1"},
                {"topic": "orders", "queue": 0, "offset": "1"},
            ]
        },
    )

    assert (answer.status, answer.code) == (422, "offset_out_of_range")
    assert engine.group_progress("billing") == []
