"""Heartbeats and leaving, as a consumer sees them."""

import asyncio
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from apps.engine.grouptypes import BlockedHead, HeartbeatRequest, Subscription
from apps.engine.types import FilterType, GroupSpec, MessageModel, Strategy
from tests.doors.asgi import Client, NoAnswer, Response
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

GROUP = "/api/v1/groups/billing"
ORDERS = [{"topic": "orders"}]
QUEUES = [0, 1, 2, 3]


def heartbeat_path(client_id: str) -> str:
    return f"{GROUP}/members/{quote(client_id, safe='')}:heartbeat"


def leave_path(client_id: str) -> str:
    return f"{GROUP}/members/{quote(client_id, safe='')}:leave"


async def heartbeat(client: Client, client_id: str = "c1", **fields: object) -> dict[str, Any]:
    answer = await client.post(heartbeat_path(client_id), {"subscriptions": ORDERS} | fields)
    assert answer.status == 200, answer.body
    return dict(answer.json())


async def leave(client: Client, client_id: str = "c1", **options: Any) -> Response:
    return await client.post(leave_path(client_id), **options)


async def until_waiting(engine: Recorder, client_id: str) -> None:
    """Return once a heartbeat of the client is parked in the engine."""
    while not any(m.client_id == client_id and m.is_waiting for m in engine.members()):
        await asyncio.sleep(0)


async def test_the_first_member_is_answered_all_queues_and_when_to_ask_again(
    client: Client,
) -> None:
    answer = await heartbeat(client)

    assert set(answer) == {"generation", "assignment", "heartbeat_ms", "retry_max"}
    assert answer["assignment"] == {"orders": QUEUES}
    assert 0 < answer["generation"] < 2**53
    assert answer["heartbeat_ms"] > 0


@pytest.mark.parametrize("retry_max", [None, 0, 16])
async def test_a_member_is_told_how_often_its_group_tries_again(
    client: Client, engine: Recorder, retry_max: int | None
) -> None:
    group = GroupSpec(name="billing", retry_max=retry_max)
    engine.publish_catalog(replace(engine.catalog, version=2, groups={"billing": group}))

    assert (await heartbeat(client))["retry_max"] == retry_max


async def test_members_share_the_queues(client: Client) -> None:
    first = await heartbeat(client, "c1")
    second = await heartbeat(client, "c2")
    again = await heartbeat(client, "c1", generation=first["generation"])

    shares = [again["assignment"]["orders"], second["assignment"]["orders"]]
    assert sorted(shares[0] + shares[1]) == QUEUES
    assert len(shares[0]) == len(shares[1]) == 2
    assert again["generation"] == second["generation"] > first["generation"]


async def test_a_broadcasting_member_has_all_queues(client: Client) -> None:
    await heartbeat(client, "c1", model="BROADCASTING")

    answer = await heartbeat(client, "c2", model="BROADCASTING")

    assert answer["assignment"] == {"orders": QUEUES}


async def test_a_heartbeat_carries_all_that_a_member_says(client: Client, engine: Recorder) -> None:
    await heartbeat(
        client,
        "c1",
        subscriptions=[
            {"topic": "orders", "filter": "TagA || TagB"},
            {"topic": "single", "filter": "price > 5", "filter_type": "SQL92"},
        ],
        model="CLUSTERING",
        ordered=True,
        strategy="AVG_BY_CIRCLE",
        site="room-1",
        generation=5,
        blocked=[
            {"topic": "orders", "queue": 1, "offset": "7", "attempts": 3, "reason": "no stock"},
            {"topic": "orders", "queue": 2, "offset": 8, "attempts": 1},
        ],
    )

    assert engine.heartbeats == [
        HeartbeatRequest(
            group="billing",
            client_id="c1",
            subscriptions=(
                Subscription(topic="orders", filter="TagA || TagB"),
                Subscription(topic="single", filter="price > 5", filter_type=FilterType.SQL92),
            ),
            model=MessageModel.CLUSTERING,
            ordered=True,
            strategy=Strategy.AVG_BY_CIRCLE,
            site="room-1",
            generation=5,
            blocked=(
                BlockedHead(topic="orders", queue=1, queue_offset=7, attempts=3, reason="no stock"),
                BlockedHead(topic="orders", queue=2, queue_offset=8, attempts=1),
            ),
        )
    ]


@pytest.mark.parametrize("client_id", ["10.0.0.7@4711#99:heartbeat", "a/b", "ü%41", "c" * 255])
async def test_a_client_id_is_percent_decoded_once(
    client: Client, engine: Recorder, client_id: str
) -> None:
    await heartbeat(client, client_id)

    assert [member.client_id for member in engine.members("billing")] == [client_id]


async def test_a_parked_heartbeat_is_answered_when_the_assignment_changes(
    client: Client, engine: Recorder
) -> None:
    known = await heartbeat(client, "c1")
    task = asyncio.create_task(
        heartbeat(client, "c1", generation=known["generation"], wait_ms=30_000)
    )
    await until_waiting(engine, "c1")

    await heartbeat(client, "c2")

    changed = await task
    assert changed["generation"] > known["generation"]
    assert len(changed["assignment"]["orders"]) == 2


async def test_a_heartbeat_with_another_generation_is_answered_at_once(client: Client) -> None:
    known = await heartbeat(client, "c1")

    answer = await asyncio.wait_for(
        heartbeat(client, "c1", generation=known["generation"] - 1, wait_ms=30_000), 10
    )

    assert answer == known


async def test_a_parked_heartbeat_ends_with_its_time(client: Client) -> None:
    known = await heartbeat(client, "c1")

    answer = await heartbeat(client, "c1", generation=known["generation"], wait_ms=3)

    assert answer == known


async def test_a_member_that_leaves_gives_its_queues_to_the_others(
    client: Client, engine: Recorder
) -> None:
    await heartbeat(client, "c1")
    shared = await heartbeat(client, "c2")
    task = asyncio.create_task(
        heartbeat(client, "c2", generation=shared["generation"], wait_ms=30_000)
    )
    await until_waiting(engine, "c2")

    answer = await leave(client, "c1")

    assert (answer.status, answer.body) == (204, b"")
    assert (await task)["assignment"] == {"orders": QUEUES}
    assert [member.client_id for member in engine.members()] == ["c2"]


async def test_a_client_whose_connection_breaks_while_it_waits_is_soon_no_member(
    client: Client, engine: Recorder, clock: ManualClock
) -> None:
    known = await heartbeat(client, "broken")
    await heartbeat(client, "well")
    known = await heartbeat(client, "broken", generation=known["generation"])
    gone = asyncio.Event()
    task = asyncio.create_task(
        client.post(
            heartbeat_path("broken"),
            {"subscriptions": ORDERS, "generation": known["generation"], "wait_ms": 30_000},
            gone=gone,
        )
    )
    await until_waiting(engine, "broken")

    gone.set()

    with pytest.raises(NoAnswer):
        await task
    assert [member.client_id for member in engine.members()] == ["broken", "well"]
    assert not any(member.is_waiting for member in engine.members())
    clock.now_ms += 5_001
    engine.rebalance(reason="beat")
    assert [member.client_id for member in engine.members()] == ["well"]


async def test_a_client_that_comes_back_in_time_stays_a_member(
    client: Client, engine: Recorder, clock: ManualClock
) -> None:
    known = await heartbeat(client)
    gone = asyncio.Event()
    task = asyncio.create_task(
        client.post(
            heartbeat_path("c1"),
            {"subscriptions": ORDERS, "generation": known["generation"], "wait_ms": 30_000},
            gone=gone,
        )
    )
    await until_waiting(engine, "c1")
    gone.set()
    with pytest.raises(NoAnswer):
        await task
    clock.now_ms += 4_000

    again = await heartbeat(client, generation=known["generation"])

    clock.now_ms += 5_001
    engine.rebalance(reason="beat")
    assert [member.client_id for member in engine.members()] == ["c1"]
    assert again["generation"] == known["generation"]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="no body and no type"),
        pytest.param({"document": {}}, id="an empty document"),
        pytest.param({"headers": {"content-type": "application/json"}}, id="a type alone"),
    ],
)
async def test_leaving_needs_no_body(
    client: Client, engine: Recorder, options: dict[str, Any]
) -> None:
    await heartbeat(client)

    answer = await leave(client, **options)

    assert answer.status == 204
    assert engine.members() == []


async def test_who_is_no_member_may_leave(client: Client) -> None:
    answer = await leave(client, "nobody")

    assert answer.status == 204


@pytest.mark.parametrize(
    ("options", "status", "code"),
    [
        ({"document": []}, 422, "invalid_argument"),
        ({"document": {"reason": "tired"}}, 422, "invalid_argument"),
        ({"body": b"{", "headers": {"content-type": "application/json"}}, 400, "bad_json"),
        ({"body": b"{}"}, 415, "unsupported_media_type"),
        ({"body": b"{}", "headers": {"content-type": "text/plain"}}, 415, "unsupported_media_type"),
        (
            {"body": b" " * (2**20 + 1), "headers": {"content-type": "application/json"}},
            413,
            "request_too_large",
        ),
    ],
)
async def test_a_wrong_body_makes_nobody_leave(
    client: Client, engine: Recorder, options: dict[str, Any], status: int, code: str
) -> None:
    await heartbeat(client)

    answer = await leave(client, **options)

    assert (answer.status, answer.code) == (status, code)
    assert [member.client_id for member in engine.members()] == ["c1"]


async def test_a_page_of_another_origin_cannot_make_a_member_leave(
    client: Client, engine: Recorder
) -> None:
    """A page may post without a body and without being asked, but then it says where it is from."""
    await heartbeat(client)

    answer = await leave(client, headers={"origin": "https://evil.example"})

    assert (answer.status, answer.code) == (415, "unsupported_media_type")
    assert [member.client_id for member in engine.members()] == ["c1"]


@pytest.mark.parametrize("verb", ["heartbeat", "leave"])
@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("%FF", "invalid_argument"),
        ("c" * 256, "invalid_argument"),
    ],
)
async def test_a_bad_client_id_is_refused_before_the_engine_is_asked(
    client: Client, engine: Recorder, verb: str, written: str, code: str
) -> None:
    answer = await client.post(f"{GROUP}/members/{written}:{verb}", {"subscriptions": []})

    assert (answer.status, answer.code) == (422, code)
    assert engine.calls == []


async def test_a_client_id_that_cannot_be_printed_is_refused(
    client: Client, engine: Recorder
) -> None:
    answer = await client.post(f"{GROUP}/members/a%00b:heartbeat", {"subscriptions": ORDERS})

    assert (answer.status, answer.code) == (422, "invalid_argument")
    assert engine.members() == []


@pytest.mark.parametrize("verb", ["heartbeat", "leave"])
async def test_an_empty_client_id_is_no_address(client: Client, verb: str) -> None:
    answer = await client.post(f"{GROUP}/members/:{verb}", {"subscriptions": ORDERS})

    assert (answer.status, answer.code) == (404, "not_found")


@pytest.mark.parametrize(
    ("subscription", "status", "code"),
    [
        ({"topic": "nowhere"}, 404, "unknown_topic"),
        ({"topic": "orders", "filter": "a =", "filter_type": "SQL92"}, 400, "invalid_filter"),
        ({"topic": "orders", "filter": "A || || B"}, 400, "invalid_filter"),
    ],
)
async def test_a_subscription_nobody_can_serve_makes_no_member(
    client: Client,
    engine: Recorder,
    subscription: dict[str, str],
    status: int,
    code: str,
) -> None:
    answer = await client.post(heartbeat_path("c1"), {"subscriptions": [subscription]})

    assert (answer.status, answer.code) == (status, code)
    assert engine.members() == []


BLOCKED = {"topic": "orders", "queue": 0, "offset": "0", "attempts": 1}
WRONG = [
    ({}, ""),
    ({"subscriptions": None}, "/subscriptions"),
    ({"subscriptions": ORDERS * 65}, "/subscriptions"),
    ({"subscriptions": ["orders"]}, "/subscriptions/0"),
    ({"subscriptions": [{}]}, "/subscriptions/0"),
    ({"subscriptions": [*ORDERS, {"topic": 1}]}, "/subscriptions/1/topic"),
    ({"subscriptions": [{"topic": "a b"}]}, "/subscriptions/0/topic"),
    ({"subscriptions": [*ORDERS, {"topic": "single"}, *ORDERS]}, "/subscriptions/2/topic"),
    ({"subscriptions": [{"topic": "orders", "filter": 1}]}, "/subscriptions/0/filter"),
    ({"subscriptions": [{"topic": "orders", "filter": "t" * 4097}]}, "/subscriptions/0/filter"),
    ({"subscriptions": [{"topic": "orders", "filter_type": "X"}]}, "/subscriptions/0/filter_type"),
    ({"subscriptions": [{"topic": "orders", "colour": "red"}]}, "/subscriptions/0"),
    ({"subscriptions": ORDERS, "model": "ANYCAST"}, "/model"),
    ({"subscriptions": ORDERS, "ordered": "yes"}, "/ordered"),
    ({"subscriptions": ORDERS, "strategy": "avg"}, "/strategy"),
    ({"subscriptions": ORDERS, "site": "s" * 128}, "/site"),
    ({"subscriptions": ORDERS, "generation": -1}, "/generation"),
    ({"subscriptions": ORDERS, "generation": 2**53}, "/generation"),
    ({"subscriptions": ORDERS, "generation": "1"}, "/generation"),
    ({"subscriptions": ORDERS, "wait_ms": 30_001}, "/wait_ms"),
    ({"subscriptions": ORDERS, "wait": 1}, ""),
    ({"subscriptions": ORDERS, "blocked": [BLOCKED] * 1025}, "/blocked"),
    ({"subscriptions": ORDERS, "blocked": [BLOCKED | {"topic": ""}]}, "/blocked/0/topic"),
    ({"subscriptions": ORDERS, "blocked": [BLOCKED | {"queue": -1}]}, "/blocked/0/queue"),
    ({"subscriptions": ORDERS, "blocked": [BLOCKED | {"offset": "x"}]}, "/blocked/0/offset"),
    ({"subscriptions": ORDERS, "blocked": [BLOCKED | {"attempts": -1}]}, "/blocked/0/attempts"),
    ({"subscriptions": [], "blocked": [BLOCKED | {"reason": "r" * 1025}]}, "/blocked/0/reason"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "pointer"), WRONG)
async def test_a_wrong_heartbeat_is_refused_by_a_pointer(
    client: Client, engine: Recorder, document: dict[str, object], pointer: str
) -> None:
    answer = await client.post(heartbeat_path("c1"), document)

    assert answer.status == 422
    assert answer.code in ("invalid_argument", "invalid_name")
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert error["detail"]
    assert engine.calls == []
