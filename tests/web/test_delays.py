"""Delayed messages in the control plane: the beat's step, its rows, and the API."""

import logging
from dataclasses import replace
from datetime import timedelta

import pytest

from apps.core.moments import moment
from apps.delays import services
from apps.delays.models import DelayLevel
from apps.engine.delaytypes import Recall
from apps.engine.errors import StoreFull, Unreachable
from tests.web.conftest import Api
from tests.web.fake_care import delayed_message, level
from tests.web.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db

NOW_MS = 1_763_000_000_000


def rows() -> dict[int, tuple[int, int]]:
    return {row.level: (row.delivered, row.max_offset) for row in DelayLevel.objects.all()}


def test_a_step_delivers_what_is_due_and_keeps_where_each_level_is(engine: FakeEngine) -> None:
    engine.levels = [level(1, max_offset=5), level(2, max_offset=9, delivered=2, late_ms=40)]
    engine.due = {1: 5, 2: 3}

    step = services.deliver_levels(now_ms=NOW_MS)

    assert (step.done, step.more) == (8, False)
    assert rows() == {1: (5, 5), 2: (5, 9)}
    assert DelayLevel.objects.get(level=2).pending == 4
    assert DelayLevel.objects.get(level=2).late_ms == 40


def test_a_step_is_bounded_and_says_that_more_is_due(engine: FakeEngine) -> None:
    engine.levels = [level(3, max_offset=25_000)]
    engine.due = {3: 25_000}

    steps = [services.deliver_levels(now_ms=NOW_MS) for _ in range(3)]

    assert [(step.done, step.more) for step in steps] == [
        (10_000, True), (10_000, True), (5_000, False),
    ]  # fmt: skip
    assert set(engine.delivery_calls) == {services.MESSAGES_PER_CALL}
    assert rows() == {3: (25_000, 25_000)}


def test_nothing_due_is_a_step_that_did_nothing(engine: FakeEngine) -> None:
    engine.levels = [level(1)]

    step = services.deliver_levels(now_ms=NOW_MS)

    assert (step.done, step.more) == (0, False)
    assert rows() == {1: (0, 0)}


def test_a_row_is_written_when_something_moved_or_when_it_is_old(engine: FakeEngine) -> None:
    engine.levels = [level(1), level(2)]
    services.deliver_levels(now_ms=NOW_MS)

    engine.levels[1] = level(2, max_offset=1, head_due_ms=NOW_MS + 2_000)
    services.deliver_levels(now_ms=NOW_MS + 1_000)
    ages = dict(DelayLevel.objects.values_list("level", "sampled_at"))
    services.deliver_levels(now_ms=NOW_MS + 10_000)
    later = dict(DelayLevel.objects.values_list("level", "sampled_at"))

    assert ages == {1: moment(NOW_MS), 2: moment(NOW_MS + 1_000)}
    assert later == {1: moment(NOW_MS + 10_000), 2: moment(NOW_MS + 1_000)}
    assert DelayLevel.objects.get(level=2).head_due_at == moment(NOW_MS + 2_000)


def test_a_clock_that_was_set_back_makes_no_row_fresh(engine: FakeEngine) -> None:
    engine.levels = [level(1)]
    services.deliver_levels(now_ms=NOW_MS)

    services.deliver_levels(now_ms=NOW_MS - 3_600_000)

    found = DelayLevel.objects.get(level=1)
    assert found.sampled_at == moment(NOW_MS) - timedelta(hours=1)


def test_a_level_that_is_gone_has_no_row_and_a_new_store_begins_again(engine: FakeEngine) -> None:
    engine.levels = [level(1, delivered=9, max_offset=9), level(2)]
    services.deliver_levels(now_ms=NOW_MS)

    engine.levels = [level(1, delivered=0, max_offset=1)]
    services.deliver_levels(now_ms=NOW_MS + 1_000)

    assert rows() == {1: (0, 1)}


@pytest.mark.parametrize("refusal", [Unreachable("away"), StoreFull("full")])
def test_a_broker_that_cannot_deliver_fails_the_step_and_leaves_the_rows(
    engine: FakeEngine, refusal: Exception
) -> None:
    engine.levels = [level(1, max_offset=5)]
    services.deliver_levels(now_ms=NOW_MS)
    engine.care_refusal = refusal  # type: ignore[assignment]

    with pytest.raises(type(refusal)):
        services.deliver_levels(now_ms=NOW_MS + 1_000)

    assert rows() == {1: (0, 5)}


def test_operators_are_told_the_three_honest_answers_and_logged(
    engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="mqweb.delays")
    engine.waiting = [delayed_message(1), delayed_message(2)]

    answers = [
        services.cancel(handle="handle-1", by="ann"),
        services.cancel(handle="handle-1", by="ann"),
        services.deliver_now(handle="handle-2", by="ann"),
        services.cancel(handle="handle-2", by="ann"),
        services.deliver_now(handle="handle-1", by="ann"),
        services.cancel(handle="nobody's", by="ann"),
    ]

    assert answers == [
        Recall.CANCELLED, Recall.CANCELLED, Recall.DELIVERED, Recall.DELIVERED, Recall.CANCELLED,
        Recall.UNKNOWN,
    ]  # fmt: skip
    assert [record.getMessage() for record in caplog.records] == [
        "delayed_recalled", "delayed_recalled", "delayed_sent_now", "delayed_recalled",
        "delayed_sent_now", "delayed_recalled",
    ]  # fmt: skip
    assert {record.__dict__["by"] for record in caplog.records} == {"ann"}


def test_delayed_messages_are_listed_by_due_time_in_pages(api: Api, engine: FakeEngine) -> None:
    engine.waiting = [delayed_message(number) for number in (3, 1, 2)]
    seen: list[str] = []
    cursor: str | None = ""

    while cursor is not None:
        page = api.get("/delayed", limit="2", cursor=cursor).json()
        seen += [item["number"] for item in page["items"]]
        cursor = page["next_cursor"]

    assert seen == ["1", "2", "3"]


def test_a_delayed_message_is_told_whole(api: Api, engine: FakeEngine) -> None:
    engine.waiting = [
        delayed_message(7, tag="red", keys="k1 k2", born_time_ms=NOW_MS, due_ms=NOW_MS + 1)
    ]

    (item,) = api.get("/delayed").json()["items"]

    assert item == {
        "number": "7",
        "recall_handle": "handle-7",
        "level": None,
        "topic": "orders",
        "queue": 0,
        "message_id": "id-7",
        "tag": "red",
        "keys": ["k1", "k2"],
        "size_bytes": 100,
        "born_time": "2025-11-13T02:13:20.000Z",
        "deliver_at": "2025-11-13T02:13:20.001Z",
    }


def test_a_time_of_birth_that_is_no_time_is_null(api: Api, engine: FakeEngine) -> None:
    engine.waiting = [delayed_message(1, born_time_ms=2**62), delayed_message(2, born_time_ms=-1)]

    items = api.get("/delayed").json()["items"]

    assert [item["born_time"] for item in items] == [None, None]


def test_levels_topics_and_due_times_can_be_asked_for(api: Api, engine: FakeEngine) -> None:
    engine.waiting = [
        delayed_message(1),
        delayed_message(2, topic="bills"),
        delayed_message(3),
        delayed_message(4, level=3, handle=None),
    ]

    def numbers(**query: str) -> list[str]:
        return [item["number"] for item in api.get("/delayed", **query).json()["items"]]

    assert numbers(level="3") == ["4"]
    assert numbers(topic="orders") == ["1", "3"]
    assert numbers(**{"from": "1000", "to": "3000"}) == ["1", "2"]
    assert numbers(**{"from": "1970-01-01T00:00:03Z"}) == ["3"]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"level": "0"}, "/level"),
        ({"level": "129"}, "/level"),
        ({"level": "x"}, "/level"),
        ({"topic": "a b"}, "/topic"),
        ({"from": "yesterday"}, "/from"),
        ({"to": "2026-01-01T00:00:00"}, "/to"),
        ({"from": "2000", "to": "2000"}, "/from"),
        ({"limit": "0"}, "/limit"),
        ({"limit": "1001"}, "/limit"),
        ({"limit": "٣"}, "/limit"),
    ],
)
def test_a_query_that_cannot_be_meant_is_refused(
    api: Api, engine: FakeEngine, query: dict[str, str], pointer: str
) -> None:
    answer = api.get("/delayed", **query)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_a_cursor_of_somewhere_else_is_refused_by_the_engine(api: Api, engine: FakeEngine) -> None:
    answer = api.get("/delayed", cursor="x'; DROP TABLE")

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_argument")


def test_levels_are_told_with_what_waits_and_how_late_they_are(
    api: Api, engine: FakeEngine
) -> None:
    engine.levels = [
        level(2, delivered=1, max_offset=4, head_due_ms=1_000, late_ms=250),
        level(1),
    ]

    first, second = api.get("/delayed/levels").json()["items"]

    assert (first["level"], first["pending"], first["head_due_at"], first["late_ms"]) == (
        1, 0, None, None,
    )  # fmt: skip
    assert first["head_late_ms"] is None
    assert (second["level"], second["pending"]) == (2, 3)
    assert (second["delivered"], second["max_offset"]) == ("1", "4")
    assert second["head_due_at"] == "1970-01-01T00:00:01.000Z"
    # Due since 1970.
    assert second["head_late_ms"] > 50 * 365 * 86_400_000
    assert second["late_ms"] == 250


def test_the_counters_tell_unknown_from_zero(api: Api, engine: FakeEngine) -> None:
    empty = api.get("/delayed/status").json()
    engine.levels = [level(1, max_offset=3)]
    engine.waiting = [delayed_message(5), delayed_message(6)]
    engine.recalled = {"x": Recall.CANCELLED}
    engine.late_ms = 12

    found = api.get("/delayed/status").json()

    assert (empty["pending"], empty["next_due_at"], empty["late_ms"]) == (0, None, None)
    assert (found["pending"], found["in_levels"], found["cancelled"]) == (2, 3, 1)
    assert found["next_due_at"] == "1970-01-01T00:00:05.000Z"
    assert found["late_ms"] == 12
    assert found["histogram"][-1] == {"within_s": None, "count": 2}


@pytest.mark.parametrize("path", ["/delayed", "/delayed/levels", "/delayed/status"])
def test_without_a_broker_the_answer_is_503(api: Api, engine: FakeEngine, path: str) -> None:
    engine.care_refusal = Unreachable("away")

    answer = api.get(path)

    assert (answer.status_code, answer.json()["code"]) == (503, "unreachable")


def test_rows_only_say_how_far_it_is(engine: FakeEngine) -> None:
    """A database that was lost costs nothing: the engine's log is what delivers once."""
    engine.levels = [level(1, delivered=7, max_offset=7)]
    services.deliver_levels(now_ms=NOW_MS)
    DelayLevel.objects.all().delete()
    engine.levels = [replace(engine.levels[0], max_offset=8)]
    engine.due = {1: 1}

    step = services.deliver_levels(now_ms=NOW_MS)

    assert step.done == 1
    assert rows() == {1: (8, 8)}
