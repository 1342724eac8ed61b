"""Queue locks over the door, and what is refused without them."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from apps.engine.types import GroupSpec
from tests.doors.asgi import Client, Response
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

GROUP = "/api/v1/groups/billing"
ACQUIRE = f"{GROUP}/locks:acquire"
RELEASE = f"{GROUP}/locks:release"
PULL = "/api/v1/topics/orders/queues/0/messages"
FIRST = {"topic": "orders", "queue": 0}
SECOND = {"topic": "orders", "queue": 1}


async def acquire(client: Client, client_id: str, *queues: dict[str, object]) -> dict[str, Any]:
    answer = await client.post(ACQUIRE, {"client_id": client_id, "queues": queues or [FIRST]})
    assert answer.status == 200, answer.body
    return dict(answer.json())


async def epoch_of(client: Client, client_id: str) -> int:
    """Lock the first queue for a client and return the lock's epoch."""
    (locked,) = (await acquire(client, client_id))["locked"]
    return int(locked["epoch"])


async def release(client: Client, client_id: str, *queues: dict[str, object]) -> dict[str, Any]:
    answer = await client.post(RELEASE, {"client_id": client_id, "queues": queues or [FIRST]})
    assert answer.status == 200, answer.body
    return dict(answer.json())


async def send(client: Client, *bodies: str, queue: int = 0) -> None:
    messages = [{"body": body, "queue": queue} for body in bodies]
    answer = await client.post(
        "/api/v1/topics/orders/messages", {"messages": messages, "ack": "sync"}
    )
    assert answer.status == 201


async def receive(client: Client, client_id: str = "a", **fields: object) -> dict[str, Any]:
    answer = await client.post(
        f"{GROUP}/messages:receive", {"topic": "orders", "client_id": client_id} | fields
    )
    assert answer.status == 200, answer.body
    return dict(answer.json())


def assert_lost(answer: Response, code: str = "lock_lost") -> None:
    """Assert that an answer is the problem document of a lost lock or queue."""
    assert (answer.status, answer.code) == (409, code)
    assert answer.json()["retriable"] is False
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


async def test_free_locks_are_taken_and_anothers_are_refused_in_one_step(client: Client) -> None:
    await acquire(client, "a", FIRST)

    answer = await acquire(client, "b", FIRST, SECOND)

    (locked,) = answer["locked"]
    assert locked.pop("epoch") > 2**32
    assert 0 < locked.pop("expires_in_ms") <= 60_000
    assert locked == SECOND
    assert answer["refused"] == [FIRST | {"owner": "a"}]


async def test_the_same_call_renews_and_keeps_the_epoch(client: Client) -> None:
    first = await acquire(client, "a", FIRST)
    second = await acquire(client, "a", FIRST)

    assert first["locked"][0]["epoch"] == second["locked"][0]["epoch"]


async def test_a_lock_given_back_is_free_for_the_next_with_a_higher_epoch(client: Client) -> None:
    before = await epoch_of(client, "a")

    answer = await release(client, "a")

    assert answer == {"locked": [], "refused": []}
    assert await epoch_of(client, "b") > before


async def test_nobody_gives_back_the_lock_of_another(client: Client) -> None:
    await acquire(client, "a")

    answer = await release(client, "b")

    assert answer == {"locked": [], "refused": [FIRST | {"owner": "a"}]}


async def test_a_lock_is_taken_over_when_its_time_is_over(
    client: Client, clock: ManualClock
) -> None:
    before = await epoch_of(client, "a")
    clock.now_ms += 60_001

    assert await epoch_of(client, "b") > before


async def test_who_leaves_the_group_gives_its_locks_back(client: Client) -> None:
    await client.post(f"{GROUP}/members/a:heartbeat", {"subscriptions": [{"topic": "orders"}]})
    await acquire(client, "a")
    await client.post(f"{GROUP}/members/a:leave")

    answer = await acquire(client, "b")

    assert [lock["queue"] for lock in answer["locked"]] == [0]


async def test_a_lock_goes_to_the_client_the_queue_is_assigned_to(client: Client) -> None:
    await client.post(f"{GROUP}/members/a:heartbeat", {"subscriptions": [{"topic": "orders"}]})

    answer = await acquire(client, "b")

    assert answer == {"locked": [], "refused": [FIRST | {"owner": "a"}]}


@pytest.mark.parametrize("path", [ACQUIRE, RELEASE])
@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({}, ""),
        ({"client_id": "a"}, ""),
        ({"queues": [FIRST]}, ""),
        ({"client_id": "", "queues": [FIRST]}, "/client_id"),
        ({"client_id": "c" * 256, "queues": [FIRST]}, "/client_id"),
        ({"client_id": 7, "queues": [FIRST]}, "/client_id"),
        ({"client_id": "a", "queues": []}, "/queues"),
        ({"client_id": "a", "queues": [FIRST] * 1025}, "/queues"),
        ({"client_id": "a", "queues": FIRST}, "/queues"),
        ({"client_id": "a", "queues": [FIRST, {"topic": "orders"}]}, "/queues/1"),
        ({"client_id": "a", "queues": [FIRST | {"queue": -1}]}, "/queues/0/queue"),
        ({"client_id": "a", "queues": [FIRST | {"queue": "0"}]}, "/queues/0/queue"),
        ({"client_id": "a", "queues": [FIRST, FIRST | {"topic": "a b"}]}, "/queues/1/topic"),
        ({"client_id": "a", "queues": [FIRST | {"owner": "a"}]}, "/queues/0"),
        ({"client_id": "a", "queues": [FIRST], "lease_ms": 1}, ""),
    ],
)
async def test_a_wrong_request_for_locks_is_refused_by_a_pointer(
    client: Client, engine: Recorder, path: str, document: dict[str, object], pointer: str
) -> None:
    answer = await client.post(path, document)

    assert answer.status == 422
    assert answer.code in ("invalid_argument", "invalid_name")
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert engine.calls == []


@pytest.mark.parametrize(
    ("queue", "code"),
    [({"topic": "nowhere", "queue": 0}, "unknown_topic"), (FIRST | {"queue": 4}, "unknown_queue")],
)
async def test_a_queue_nobody_has_cannot_be_locked(
    client: Client, engine: Recorder, queue: dict[str, object], code: str
) -> None:
    answer = await client.post(ACQUIRE, {"client_id": "a", "queues": [SECOND, queue]})

    assert (answer.status, answer.code) == (404, code)
    assert engine.queue_locks() == []


async def test_a_pull_with_the_epoch_of_the_lock_reads(client: Client) -> None:
    await send(client, "a")
    epoch = await epoch_of(client, "c")

    answer = await client.get(f"{PULL}?offset=0&group=billing&client_id=c&epoch={epoch}")

    assert [message["body"] for message in answer.json()["messages"]] == ["a"]


async def test_a_pull_with_a_stale_epoch_has_lost_its_lock(
    client: Client, clock: ManualClock
) -> None:
    await send(client, "a")
    old = await epoch_of(client, "paused")
    clock.now_ms += 60_001
    await acquire(client, "next")

    answer = await client.get(f"{PULL}?offset=0&group=billing&client_id=paused&epoch={old}")

    assert_lost(answer)


async def test_a_parked_pull_is_answered_when_its_lock_is_lost(
    client: Client, engine: Recorder
) -> None:
    epoch = await epoch_of(client, "c")
    pull = asyncio.create_task(
        client.get(f"{PULL}?offset=0&group=billing&client_id=c&epoch={epoch}&wait_ms=30000")
    )
    while engine.status().parked == 0:
        await asyncio.sleep(0)

    await release(client, "c")

    assert_lost(await asyncio.wait_for(pull, 10))


async def test_a_pull_of_a_queue_that_is_anothers_is_stale(client: Client) -> None:
    joined = await client.post(
        f"{GROUP}/members/a:heartbeat", {"subscriptions": [{"topic": "orders"}]}
    )
    generation = joined.json()["generation"]
    query = f"offset=0&group=billing&generation={generation}"

    own = await client.get(f"{PULL}?{query}&client_id=a")
    foreign = await client.get(f"{PULL}?{query}&client_id=b")

    assert own.status == 200
    assert_lost(foreign, "stale_generation")


async def test_a_receive_passes_over_the_queues_another_has_locked(client: Client) -> None:
    await send(client, "locked", queue=0)
    await send(client, "free", queue=1)
    await acquire(client, "other", FIRST)

    answer = await receive(client, "c")

    assert [message["body"] for message in answer["messages"]] == ["free"]
    assert answer["blocked_by_lock"] == [0]


async def test_where_several_topics_were_asked_for_blocked_queues_have_their_topic(
    client: Client,
) -> None:
    await send(client, "locked")
    await acquire(client, "other", FIRST)

    answer = await client.post(
        f"{GROUP}/messages:receive", {"topics": ["single", "orders"], "client_id": "c"}
    )

    assert answer.json() == {"messages": [], "blocked_by_lock": [FIRST]}


async def test_the_holder_of_a_lock_receives_from_its_queue(client: Client) -> None:
    await send(client, "mine")
    await acquire(client, "c", FIRST)

    answer = await receive(client, "c")

    assert [message["body"] for message in answer["messages"]] == ["mine"]
    assert answer["blocked_by_lock"] == []


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
async def test_settling_with_the_epoch_of_the_lock_works(client: Client, verb: str) -> None:
    await send(client, "a")
    epoch = await epoch_of(client, "c")
    (message,) = (await receive(client, "c"))["messages"]

    answer = await client.post(
        f"{GROUP}/messages:{verb}",
        {"receipt_handles": [message["receipt_handle"]], "epoch": epoch},
    )

    assert answer.status == 200
    assert answer.json()["results"][0]["status"] == "ok"


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
async def test_settling_with_a_stale_epoch_settles_nothing(
    client: Client, clock: ManualClock, verb: str
) -> None:
    await send(client, "a")
    old = await epoch_of(client, "c")
    (message,) = (await receive(client, "c", invisible_ms=600_000))["messages"]
    clock.now_ms += 60_001
    await acquire(client, "next")
    document = {"receipt_handles": [message["receipt_handle"]]}

    refused = await client.post(f"{GROUP}/messages:{verb}", document | {"epoch": old})

    assert_lost(refused)
    assert (await receive(client, "next"))["messages"] == []
    # The handle was not touched: without the fence it still does its work.
    assert (await client.post(f"{GROUP}/messages:{verb}", document)).status == 200


async def test_a_commit_with_the_epoch_of_the_lock_is_taken(
    client: Client, engine: Recorder
) -> None:
    await send(client, "a")
    epoch = await epoch_of(client, "c")

    answer = await client.post(
        f"{GROUP}/offsets:commit",
        {"client_id": "c", "offsets": [FIRST | {"offset": "1", "epoch": epoch}]},
    )

    assert answer.status == 204
    progress = {(row.topic, row.queue): row.committed for row in engine.group_progress("billing")}
    assert progress["orders", 0] == 1


async def test_a_commit_with_one_stale_epoch_changes_nothing(
    client: Client, engine: Recorder, clock: ManualClock
) -> None:
    await send(client, "a")
    await send(client, "b", queue=1)
    old = await epoch_of(client, "c")
    clock.now_ms += 60_001
    (first, second) = (await acquire(client, "c", FIRST, SECOND))["locked"]

    answer = await client.post(
        f"{GROUP}/offsets:commit",
        {
            "client_id": "c",
            "offsets": [
                SECOND | {"offset": "1", "epoch": second["epoch"]},
                FIRST | {"offset": "1", "epoch": old},
            ],
        },
    )

    assert first["epoch"] != old
    assert_lost(answer)
    assert engine.group_progress("billing") == []


async def test_a_commit_of_a_queue_that_is_anothers_is_stale(
    client: Client, engine: Recorder
) -> None:
    await send(client, "a")
    joined = await client.post(
        f"{GROUP}/members/a:heartbeat", {"subscriptions": [{"topic": "orders"}]}
    )

    answer = await client.post(
        f"{GROUP}/offsets:commit",
        {
            "client_id": "b",
            "generation": joined.json()["generation"],
            "offsets": [FIRST | {"offset": "1"}],
        },
    )

    assert_lost(answer, "stale_generation")
    assert engine.group_progress("billing") == []


def decide(engine: Recorder, *, ordered: bool = False, enabled: bool = True) -> None:
    """Decide about the group `billing`."""
    group = GroupSpec(name="billing", ordered=ordered, enabled=enabled)
    snapshot = replace(engine.catalog, version=2, groups={"billing": group})
    engine.publish_catalog(snapshot)


async def test_an_ordered_group_reads_and_commits_only_under_the_lock(
    client: Client, engine: Recorder
) -> None:
    decide(engine, ordered=True)
    await send(client, "a")
    offsets = [FIRST | {"offset": "1"}]

    assert_lost(await client.get(f"{PULL}?offset=0&group=billing&client_id=c"))
    assert_lost(
        await client.post(f"{GROUP}/offsets:commit", {"client_id": "c", "offsets": offsets})
    )
    epoch = await epoch_of(client, "c")
    read = await client.get(f"{PULL}?offset=0&group=billing&client_id=c&epoch={epoch}")
    committed = await client.post(
        f"{GROUP}/offsets:commit", {"client_id": "c", "offsets": [offsets[0] | {"epoch": epoch}]}
    )

    assert [message["body"] for message in read.json()["messages"]] == ["a"]
    assert committed.status == 204


async def test_an_operator_commits_for_an_ordered_group_without_a_lock(
    client: Client, engine: Recorder
) -> None:
    decide(engine, ordered=True)
    await send(client, "a")

    answer = await client.post(f"{GROUP}/offsets:commit", {"offsets": [FIRST | {"offset": "1"}]})

    assert answer.status == 204


async def test_a_disabled_group_may_do_nothing(client: Client, engine: Recorder) -> None:
    decide(engine, enabled=False)

    answers = [
        await client.post(f"{GROUP}/members/c:heartbeat", {"subscriptions": [{"topic": "orders"}]}),
        await client.post(f"{GROUP}/messages:receive", {"topic": "orders"}),
        await client.get(f"{PULL}?offset=0&group=billing&client_id=c"),
    ]

    assert [(answer.status, answer.code) for answer in answers] == [(403, "not_permitted")] * 3
    assert engine.members() == []


async def test_an_old_release_leaves_the_lock_that_was_taken_anew(client: Client) -> None:
    old = await epoch_of(client, "a")
    await release(client, "a", FIRST | {"epoch": old})
    epoch = await epoch_of(client, "a")

    assert await release(client, "a", FIRST | {"epoch": old}) == {"locked": [], "refused": []}

    assert await epoch_of(client, "a") == epoch > old
