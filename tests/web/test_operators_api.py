"""Care of queues, resets of offsets and what-if over the API, against the engine of the product."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apps.bridge import engine as bridge
from apps.groups import services as groups
from apps.groups.models import OffsetReset
from apps.topics import services as topics
from tests.web.conftest import Api
from tests.web.test_group_on_the_engine import Broker, in_thread

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path)
    await broker.start()
    await in_thread(lambda: topics.create_or_change_topic(name="orders", queue_count=2))
    yield broker
    await broker.stop()


async def post(path: str, body: object) -> Any:
    api = Api()
    return await in_thread(
        lambda: api.client.post(f"/api/v1{path}", data=body, content_type="application/json")
    )


async def get(path: str, **query: str) -> Any:
    return await in_thread(lambda: Api().get(path, **query))


async def in_order(broker: Broker, count: int = 3) -> None:
    await in_thread(lambda: groups.put_group(name="g", values={"ordered": True}))
    await broker.send(0, count)


async def committed(queue: int = 0) -> int:
    rows = (await get("/groups/g/offsets")).json()["items"]
    return next(int(row["committed"]) for row in rows if row["queue"] == queue)


QUEUE = "/groups/g/queues/orders/0"
BODY = {"expected_offset": "0", "reason": "poison"}


# --- care --------------------------------------------------------------------------------------


async def test_a_skip_advances_by_one_and_says_so(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await in_order(broker)

    answer = await post(f"{QUEUE}:skip", BODY)

    assert answer.status_code == 200
    assert answer.json() == {
        "act": "skip",
        "group": "g",
        "topic": "orders",
        "queue": 0,
        "head": "1",
        "is_repeat": False,
        "suspension": None,
        "dead_letter_offset": None,
    }
    assert await committed() == 1
    assert (await post(f"{QUEUE}:skip", BODY)).json()["is_repeat"] is True
    (line,) = [r for r in caplog.records if r.getMessage() == "queue_attended_by_operator"]
    assert (line.act, line.by, line.offset) == ("skip", "anonymous at 127.0.0.1", 0)  # type: ignore[attr-defined]


async def test_a_head_that_has_moved_is_a_409(broker: Broker) -> None:
    await in_order(broker)
    await broker.read(2)

    for act in ("skip", "park"):
        answer = await post(f"{QUEUE}:{act}", BODY)
        assert (answer.status_code, answer.json()["code"]) == (409, "head_moved")

    assert await committed() == 2


async def test_a_parked_head_is_a_dead_letter(broker: Broker) -> None:
    await in_order(broker)

    answer = await post(f"{QUEUE}:park", BODY)

    assert (answer.json()["head"], answer.json()["dead_letter_offset"]) == ("1", "0")
    assert broker.engine.own_ranges("%DLQ%")["%DLQ%g"][0].max_offset == 1


async def test_a_suspended_queue_is_shown_in_backlog_and_among_the_blocked(
    broker: Broker,
) -> None:
    await in_order(broker)

    answer = await post(f"{QUEUE}:suspend", {"reason": "look at it"})

    said = answer.json()["suspension"]
    assert (said["by"], said["reason"]) == ("anonymous at 127.0.0.1", "look at it")
    (row, _) = (await get("/groups/g/lag")).json()["items"]
    assert row["suspension"] == said
    (blocked,) = (await get("/groups/g/blocked")).json()["items"]
    assert blocked["reason"] == "suspended"
    assert blocked["detail"] == "suspended by anonymous at 127.0.0.1: look at it"
    resumed = await post(f"{QUEUE}:resume", {"reason": "mended", "expected_offset": 0})
    assert resumed.json()["suspension"] is None
    assert (await get("/groups/g/blocked")).json()["items"] == []


@pytest.mark.parametrize(
    ("act", "body"),
    [
        ("skip", {"reason": "x"}),
        ("skip", {"expected_offset": "0"}),
        ("park", {"expected_offset": "-1", "reason": "x"}),
        ("park", {"expected_offset": "0", "reason": "x", "force": True}),
        ("suspend", {}),
        ("suspend", {"reason": " "}),
        ("resume", {"reason": "x" * 501}),
    ],
)
async def test_a_bad_body_of_an_act_is_refused(broker: Broker, act: str, body: object) -> None:
    await in_order(broker)

    answer = await post(f"{QUEUE}:{act}", body)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_argument")


async def test_a_group_without_an_order_and_a_queue_that_is_not_there_are_told_apart(
    broker: Broker,
) -> None:
    await broker.send(0)

    assert (await post(f"{QUEUE}:skip", BODY)).json()["code"] == "not_ordered"
    answer = await post("/groups/g/queues/orders/9:skip", BODY)
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_queue")


# --- resets ------------------------------------------------------------------------------------


async def read_some(broker: Broker) -> None:
    await broker.send(0, 9)
    await broker.send(1, 4)
    await broker.read(5, 4)


@pytest.mark.parametrize(
    ("body", "targets"),
    [
        ({"target": "earliest"}, ["0", "0"]),
        ({"target": "latest"}, ["9", "4"]),
        ({"target": "offset", "offset": "3"}, ["3", "3"]),
        ({"target": "offset", "offset": 7}, ["7", "4"]),
        ({"target": "shift", "shift": "-2"}, ["3", "2"]),
        ({"target": "shift", "shift": -9}, ["0", "0"]),
        ({"target": "time", "time": 0}, ["0", "0"]),
        ({"target": "time", "time": "2100-01-01T00:00:00Z"}, ["9", "4"]),
        ({"target": "earliest", "topic": "orders", "queues": [1]}, ["0"]),
    ],
)
async def test_what_a_preview_shows_is_what_applying_does(
    broker: Broker, body: dict[str, object], targets: list[str]
) -> None:
    await read_some(broker)

    shown = (await post("/groups/g/offsets:preview", body)).json()
    done = await post("/groups/g/offsets:apply", {"token": shown["token"], "reason": "test"})

    assert [item["target"] for item in shown["items"]] == targets
    assert done.status_code == 200
    for item in shown["items"]:
        assert str(await committed(item["queue"])) == item["target"]
        moved = int(item["target"]) - int(item["current"])
        assert (int(item["skip"]) or -int(item["replay"])) == moved


async def test_a_clamped_target_is_said_to_be_one(broker: Broker) -> None:
    await read_some(broker)

    shown = (await post("/groups/g/offsets:preview", {"target": "offset", "offset": 7})).json()

    assert [item["was_clamped"] for item in shown["items"]] == [False, True]
    assert (shown["replay"], shown["skip"]) == ("0", "2")
    assert (shown["is_online"], shown["moved_max"]) == (False, 0)


async def test_where_another_group_is_can_be_copied(broker: Broker) -> None:
    await read_some(broker)
    body = {"target": "earliest", "topic": "orders", "queues": [0]}
    shown = (await post("/groups/new/offsets:preview", body)).json()
    assert shown["items"][0]["current"] == "0"

    body = {"target": "copy_from", "copy_from": "g", "topic": "orders"}
    shown = (await post("/groups/new/offsets:preview", body)).json()

    assert [item["target"] for item in shown["items"]] == ["5", "4"]
    refused = await post(
        "/groups/g/offsets:preview", {"target": "copy_from", "copy_from": "nobody"}
    )
    assert refused.status_code == 422


async def test_a_reset_is_undone_and_both_are_remembered(broker: Broker) -> None:
    await read_some(broker)
    shown = (await post("/groups/g/offsets:preview", {"target": "earliest"})).json()
    body = {"token": shown["token"], "reason": "a bug was mended"}
    done = (await post("/groups/g/offsets:apply", body)).json()
    assert (await post("/groups/g/offsets:apply", body)).json() == done
    assert done["queues"] == [
        {"topic": "orders", "queue": 0, "before": "5", "after": "0"},
        {"topic": "orders", "queue": 1, "before": "4", "after": "0"},
    ]

    wanted = {"undo_id": done["undo_id"], "reason": "wrong group"}
    undone = await post("/groups/g/offsets:undo", wanted)

    assert undone.status_code == 200
    assert (await committed(0), await committed(1)) == (5, 4)
    assert (await post("/groups/g/offsets:undo", wanted)).json() == undone.json()
    rows = (await get("/groups/g/offset-resets")).json()["items"]
    assert [(row["target"], row["state"], row["reason"]) for row in rows] == [
        (f"undo of {done['undo_id']}", "applied", "wrong group"),
        ("earliest", "undone", "a bug was mended"),
    ]
    again = await post(
        "/groups/g/offsets:undo", {"undo_id": undone.json()["undo_id"], "reason": "x"}
    )
    assert again.json()["code"] == "conflict"


async def test_a_group_that_has_moved_meanwhile_is_a_409_and_leaves_no_row(
    broker: Broker,
) -> None:
    await read_some(broker)
    shown = (await post("/groups/g/offsets:preview", {"target": "latest"})).json()
    await broker.read(6, 4)

    answer = await post("/groups/g/offsets:apply", {"token": shown["token"], "reason": "x"})

    assert (answer.status_code, answer.json()["code"]) == (409, "offsets_moved")
    assert await committed() == 6
    assert not await in_thread(OffsetReset.objects.exists)


async def test_a_group_that_is_being_read_may_get_on_a_little(broker: Broker) -> None:
    await read_some(broker)
    await broker.join("a")
    shown = (await post("/groups/g/offsets:preview", {"target": "earliest"})).json()
    assert (shown["is_online"], shown["moved_max"]) == (True, 10_000)
    await broker.read(7, 4)

    done = await post("/groups/g/offsets:apply", {"token": shown["token"], "reason": "x"})

    assert done.json()["queues"][0] == {"topic": "orders", "queue": 0, "before": "7", "after": "0"}


async def test_an_undoing_is_refused_where_the_group_is_far_away(broker: Broker) -> None:
    await read_some(broker)
    shown = (await post("/groups/g/offsets:preview", {"target": "earliest"})).json()
    done = (await post("/groups/g/offsets:apply", {"token": shown["token"], "reason": "x"})).json()
    await broker.read(9, 4)

    answer = await post("/groups/g/offsets:undo", {"undo_id": done["undo_id"], "reason": "x"})

    assert answer.json()["code"] == "offsets_moved"
    wanted = {"undo_id": done["undo_id"], "reason": "x", "moved_max": 4}
    assert (await post("/groups/g/offsets:undo", wanted)).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"target": "yesterday"},
        {"target": "time"},
        {"target": "time", "time": "2026-11-22"},
        {"target": "offset"},
        {"target": "offset", "offset": "-1"},
        {"target": "earliest", "offset": "1"},
        {"target": "earliest", "queues": [0]},
        {"target": "earliest", "topic": "orders", "queues": []},
        {"target": "earliest", "moved_max": -1},
    ],
)
async def test_a_bad_preview_is_refused(broker: Broker, body: object) -> None:
    await read_some(broker)

    assert (await post("/groups/g/offsets:preview", body)).status_code == 422


async def test_a_token_is_of_one_group_and_of_this_server(broker: Broker) -> None:
    await read_some(broker)
    shown = (await post("/groups/g/offsets:preview", {"target": "earliest"})).json()

    for group, token in (("h", shown["token"]), ("g", shown["token"] + "x"), ("g", "x")):
        answer = await post(f"/groups/{group}/offsets:apply", {"token": token, "reason": "x"})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_argument")


async def test_a_reset_to_where_the_group_is_changes_nothing(broker: Broker) -> None:
    await read_some(broker)
    body = {"target": "latest", "topic": "orders", "queues": [1]}
    shown = (await post("/groups/g/offsets:preview", body)).json()

    answer = await post("/groups/g/offsets:apply", {"token": shown["token"], "reason": "x"})

    assert answer.status_code == 422


async def test_an_unknown_group_and_topic_are_404(broker: Broker) -> None:
    answer = await post("/groups/nobody/offsets:preview", {"target": "earliest"})
    assert answer.json()["code"] == "unknown_group"
    body = {"target": "earliest", "topic": "nothing"}
    assert (await post("/groups/g/offsets:preview", body)).json()["code"] == "unknown_topic"
    answer = await post("/groups/g/offsets:undo", {"undo_id": "7", "reason": "x"})
    assert answer.json()["code"] == "not_found"


async def test_a_reset_whose_answer_was_lost_is_answered_when_it_is_asked_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read_some(broker)
    shown = (await post("/groups/g/offsets:preview", {"target": "earliest"})).json()
    body = {"token": shown["token"], "reason": "x"}
    fired = []
    asked = bridge.call

    def lost(operation: Any, **more: Any) -> Any:
        answer = asked(operation, **more)
        if not fired and hasattr(answer, "is_repeat"):
            fired.append(answer)
            raise TimeoutError
        return answer

    monkeypatch.setattr(bridge, "call", lost)
    assert (await post("/groups/g/offsets:apply", body)).status_code == 500
    assert fired, "the fault did not fire"

    again = await post("/groups/g/offsets:apply", body)

    assert again.status_code == 200
    assert again.json()["queues"][0]["before"] == "5"


# --- what-if -----------------------------------------------------------------------------------


async def test_what_if_there_were_more_members(broker: Broker) -> None:
    await broker.join("a")

    body = (await get("/groups/g/assignment:what-if", members="3", strategy="AVG")).json()

    assert body["assignment"] == {"a": {"orders": [0]}, "~1": {"orders": [1]}, "~2": {}}
    assert (body["added"], body["idle"], body["queues_moved"]) == (["~1", "~2"], ["~2"], 1)
    for query in (
        {"members": "x"}, {"members": "999999"}, {"members": ""}, {"strategy": "MINE"},
        {"strategy": ""},
    ):  # fmt: skip
        assert (await get("/groups/g/assignment:what-if", **query)).status_code == 422
