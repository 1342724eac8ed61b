"""Transactions: a message nobody sees until it is decided, and who is asked when nobody decides."""

import asyncio
from typing import Any

import pytest

from apps.doors.http.app import create_app
from apps.doors.http.settings import DoorSettings
from apps.engine.types import AckMode, CatalogSnapshot, TopicSpec
from tests.doors.asgi import Client, NoAnswer, Response
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

BEGIN = "/api/v1/topics/single/transactions"
CHECKS = "/api/v1/producer-groups/tills/checks:receive"


async def begun(client: Client, body: str = "paid", **fields: Any) -> dict[str, Any]:
    """Begin a transaction of the group `tills`."""
    message = {"body": body} | fields.pop("message", {})
    answer = await client.post(BEGIN, {"message": message, "producer_group": "tills"} | fields)
    assert answer.status == 201, answer.body
    return dict(answer.json())


async def ended(client: Client, transaction_id: str, verb: str) -> Response:
    return await client.post(f"/api/v1/transactions/{transaction_id}:{verb}")


async def bodies(client: Client, *, wait_ms: int = 0) -> list[str]:
    answer = await client.get(
        f"/api/v1/topics/single/queues/0/messages?offset=0&max=1000&wait_ms={wait_ms}"
    )
    return [message["body"] for message in answer.json()["messages"]]


async def checks_of(client: Client, **fields: Any) -> list[dict[str, Any]]:
    answer = await client.post(CHECKS, {"client_id": "till-1"} | fields)
    assert answer.status == 200, answer.body
    return list(answer.json()["checks"])


async def test_a_message_of_a_transaction_is_stored_and_seen_by_nobody(client: Client) -> None:
    found = await begun(client)

    assert found["transaction_id"]
    assert len(found["message_id"]) == 32
    assert found["store_time"] == "2023-11-14T22:13:20.123Z"
    assert await bodies(client) == []


async def test_a_committed_message_is_seen_and_told_where_it_is(client: Client) -> None:
    found = await begun(client, message={"tag": "TagA", "keys": ["k"], "properties": {"a": "b"}})

    answer = await ended(client, found["transaction_id"], "commit")

    assert (answer.status, answer.json()) == (
        200,
        {
            "transaction_id": found["transaction_id"],
            "outcome": "committed",
            "topic": "single",
            "queue": 0,
            "offset": "0",
            "repeat": False,
        },
    )
    pulled = await client.get("/api/v1/topics/single/queues/0/messages?offset=0&wait_ms=5000")
    (message,) = pulled.json()["messages"]
    assert (message["body"], message["tag"], message["keys"]) == ("paid", "TagA", ["k"])
    assert message["message_id"] == found["message_id"]
    assert message["properties"]["a"] == "b"


async def test_a_message_that_was_rolled_back_is_never_seen(client: Client) -> None:
    found = await begun(client)

    answer = await ended(client, found["transaction_id"], "rollback")

    assert (answer.status, answer.json()["outcome"]) == (200, "rolled_back")
    assert answer.json()["offset"] is None
    assert await bodies(client) == []


@pytest.mark.parametrize("verb", ["commit", "rollback"])
async def test_a_decision_may_be_repeated(client: Client, verb: str) -> None:
    found = await begun(client)
    first = await ended(client, found["transaction_id"], verb)

    again = await ended(client, found["transaction_id"], verb)

    assert (again.status, again.json()["repeat"]) == (200, True)
    assert again.json() | {"repeat": False} == first.json()
    expected = ["paid"] if verb == "commit" else []
    assert await bodies(client, wait_ms=5000 if expected else 0) == expected


@pytest.mark.parametrize(("verb", "other"), [("commit", "rollback"), ("rollback", "commit")])
async def test_a_decision_cannot_be_turned_round(client: Client, verb: str, other: str) -> None:
    found = await begun(client)
    await ended(client, found["transaction_id"], verb)

    answer = await ended(client, found["transaction_id"], other)

    assert (answer.status, answer.code) == (409, "transaction_decided")


@pytest.mark.parametrize(
    ("written", "is_asked"),
    [
        ("0.1-00000000", True),
        ("nothing", True),
        ("%FF", False),
        ("a%20b", False),
        ("x" * 1025, False),
    ],
)
async def test_a_transaction_nobody_began_is_unknown(
    client: Client, engine: Recorder, written: str, is_asked: bool
) -> None:
    answer = await ended(client, written, "commit")

    assert (answer.status, answer.code) == (404, "unknown_transaction")
    assert len(engine.calls) == is_asked


async def test_a_page_of_a_stranger_cannot_decide(client: Client, engine: Recorder) -> None:
    answer = await client.post(
        "/api/v1/transactions/0.1-00000000:commit", headers={"origin": "https://evil.example"}
    )

    assert (answer.status, answer.code) == (415, "unsupported_media_type")
    assert engine.calls == []


async def test_the_queue_is_chosen_as_for_any_message(client: Client) -> None:
    path = "/api/v1/topics/orders/transactions"
    places = []
    for message in ({"queue": 3}, {"sharding_key": "polygenelubricants"}, {}, {}):
        answer = await client.post(
            path, {"message": {"body": "x"} | message, "producer_group": "tills"}
        )
        transaction_id = answer.json()["transaction_id"]
        places.append((await ended(client, transaction_id, "commit")).json()["queue"])

    assert places == [3, 0, 0, 1]


@pytest.mark.parametrize("ack", ["sync", "async"])
async def test_a_transaction_waits_for_the_ack_that_is_asked_for(
    client: Client, engine: Recorder, ack: str
) -> None:
    await begun(client, ack=ack)

    assert [used for _, used in engine.appends] == [AckMode(ack)]


async def test_a_transaction_is_never_stored_oneway(engine: Recorder, clock: ManualClock) -> None:
    settings = DoorSettings(default_ack=AckMode.ONEWAY)
    client = Client(create_app(lambda: engine, settings, clock=clock))

    refused = await client.post(
        BEGIN, {"message": {"body": "x"}, "producer_group": "g", "ack": "oneway"}
    )
    await begun(client)

    assert (refused.status, refused.json()["errors"][0]["pointer"]) == (422, "/ack")
    assert [used for _, used in engine.appends] == [AckMode.ASYNC]


GOOD = {"message": {"body": "x"}, "producer_group": "tills"}


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"producer_group": "tills"}, ""),
        ({"message": {"body": "x"}}, ""),
        (GOOD | {"message": []}, "/message"),
        (GOOD | {"producer_group": "no group!"}, "/producer_group"),
        (GOOD | {"producer_group": ""}, "/producer_group"),
        (GOOD | {"producer_group": "x" * 128}, "/producer_group"),
        (GOOD | {"check_immunity_ms": -1}, "/check_immunity_ms"),
        (GOOD | {"ack": "maybe"}, "/ack"),
        (GOOD | {"more": 1}, ""),
        (GOOD | {"message": {"body": "x", "delay_level": 1}}, "/message/delay_level"),
        (GOOD | {"message": {"body": "x", "deliver_at": 1}}, "/message/deliver_at"),
        (GOOD | {"message": {"body": "x", "delay_ms": 1}}, "/message/delay_ms"),
    ],
)
async def test_a_bad_transaction_is_refused_with_its_place(
    client: Client, engine: Recorder, document: object, pointer: str
) -> None:
    answer = await client.post(BEGIN, document)

    assert (answer.status, answer.code) in (
        (422, "invalid_argument"), (422, "invalid_name"),
    )  # fmt: skip
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert engine.calls == []


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        ({}, 422, "invalid_argument"),
        ({"body": "x", "queue": 1}, 404, "unknown_queue"),
        ({"body": "x" * (4 * 2**20 + 1)}, 413, "message_too_large"),
        ({"body": "x", "properties": {"TRAN_MSG": "true"}}, 422, "invalid_argument"),
    ],
)
async def test_a_bad_message_begins_no_transaction(
    client: Client, engine: Recorder, message: dict[str, str], status: int, code: str
) -> None:
    answer = await client.post(BEGIN, {"message": message, "producer_group": "tills"})

    assert (answer.status, answer.code) == (status, code)
    assert engine.calls == []


async def test_a_topic_that_takes_no_messages_takes_no_transactions(
    client: Client, engine: Recorder
) -> None:
    missing = await client.post("/api/v1/topics/nothing/transactions", GOOD)
    archive = await client.post("/api/v1/topics/archive/transactions", GOOD)
    closed = TopicSpec(name="single", queue_count=1, write_queue_count=0)
    engine.publish_catalog(CatalogSnapshot(version=2, topics={"single": closed}))
    shut = await client.post(BEGIN, GOOD)

    assert (missing.status, missing.code) == (404, "unknown_topic")
    assert (archive.status, archive.code) == (403, "not_permitted")
    assert (shut.status, shut.code) == (404, "unknown_queue")


async def test_a_half_message_cannot_be_sent_as_an_ordinary_one(
    client: Client, engine: Recorder
) -> None:
    message = {"body": "x", "properties": {"TRAN_MSG": "true", "PGROUP": "tills"}}

    answer = await client.post("/api/v1/topics/single/messages", {"messages": [message]})

    assert answer.status == 207
    assert answer.json()["results"][0]["problem"]["code"] == "invalid_argument"
    assert engine.calls == []


# --- checks --------------------------------------------------------------------------------------


async def test_an_undecided_message_is_handed_to_its_producers(
    client: Client, clock: ManualClock
) -> None:
    found = await begun(client, message={"tag": "TagA"})
    early = await checks_of(client)
    clock.now_ms += 6_000

    (check,) = await checks_of(client)

    assert early == []
    message = check.pop("message")
    assert check == {
        "transaction_id": found["transaction_id"],
        "number": 1,
        "checks_max": 15,
    }
    assert (message["topic"], message["queue"]) == ("single", 0)
    assert (message["body"], message["tag"]) == ("paid", "TagA")
    assert message["message_id"] == found["message_id"]


async def test_a_check_comes_again_until_it_is_decided(client: Client, clock: ManualClock) -> None:
    found = await begun(client)
    numbers = []
    for wait_ms in (6_000, 59_999, 1, 60_000):
        clock.now_ms += wait_ms
        numbers.append([check["number"] for check in await checks_of(client)])
    await ended(client, found["transaction_id"], "commit")
    clock.now_ms += 60_000

    assert numbers == [[1], [], [2], [3]]
    assert await checks_of(client) == []


async def test_a_producer_says_itself_how_long_it_needs(client: Client, clock: ManualClock) -> None:
    await begun(client, check_immunity_ms=30_000)

    clock.now_ms += 29_999
    early = await checks_of(client)
    clock.now_ms += 1
    due = await checks_of(client)

    assert (len(early), len(due)) == (0, 1)


async def test_checks_are_those_of_the_group_and_as_many_as_asked(
    client: Client, clock: ManualClock
) -> None:
    for number in range(3):
        await begun(client, str(number))
    clock.now_ms += 6_000

    others = await client.post(
        "/api/v1/producer-groups/others/checks:receive", {"client_id": "till-1"}
    )
    first = await checks_of(client, max=2)
    second = await checks_of(client)

    assert others.json() == {"checks": []}
    assert [check["message"]["body"] for check in first + second] == ["0", "1", "2"]
    assert len(first) == 2


async def test_a_producer_that_leaves_while_it_waits_is_asked_nothing(
    client: Client, engine: Recorder, clock: ManualClock
) -> None:
    gone = asyncio.Event()
    waiting = asyncio.create_task(
        client.post(CHECKS, {"client_id": "till-1", "wait_ms": 30_000}, gone=gone)
    )
    while "receive_checks" not in engine.calls:
        await asyncio.sleep(0)

    gone.set()
    with pytest.raises(NoAnswer):
        await waiting

    await begun(client)
    clock.now_ms += 6_000
    (check,) = await checks_of(client)
    assert check["number"] == 1


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({}, ""),
        ({"client_id": ""}, "/client_id"),
        ({"client_id": "x" * 256}, "/client_id"),
        ({"client_id": "c", "max": 0}, "/max"),
        ({"client_id": "c", "max": 101}, "/max"),
        ({"client_id": "c", "wait_ms": 30_001}, "/wait_ms"),
        ({"client_id": "c", "group": "tills"}, ""),
    ],
)
async def test_a_bad_question_for_checks_is_refused_with_its_place(
    client: Client, engine: Recorder, document: object, pointer: str
) -> None:
    answer = await client.post(CHECKS, document)

    assert (answer.status, answer.code) == (422, "invalid_argument")
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert engine.calls == []
