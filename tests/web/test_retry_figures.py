"""A group's retry topic in the answers of the API and in rows: counted, and marked."""

import pytest

from apps.groups.models import ConsumerOffset
from apps.groups.projection.offsets import OffsetProjector
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine, progress
from tests.web.group_values import left_to_do

LONG = "g" * 127


def test_the_retry_topic_is_marked_and_its_lag_told_apart(api: Api, engine: FakeEngine) -> None:
    engine.left_to_do = [
        left_to_do("g", "orders", 0, committed=1, max_offset=5),
        left_to_do("g", "%RETRY%g", 0, committed=2, max_offset=9, oldest_age_ms=4_000),
    ]

    body = api.get("/groups/g/lag").json()

    assert [(row["topic"], row["is_retry"], row["lag"]) for row in body["items"]] == [
        ("%RETRY%g", True, "7"),
        ("orders", False, "4"),
    ]
    total = body["total"]
    assert (total["lag"], total["retry_lag"], total["oldest_age_ms"]) == ("11", "7", 4_000)


def test_the_retry_topic_of_another_group_is_an_ordinary_one(api: Api, engine: FakeEngine) -> None:
    engine.left_to_do = [left_to_do("g", "%RETRY%other", 0, max_offset=3)]

    body = api.get("/groups/g/lag").json()

    assert [row["is_retry"] for row in body["items"]] == [False]
    assert (body["total"]["lag"], body["total"]["retry_lag"]) == ("3", "0")


def test_a_group_tells_how_much_of_its_lag_is_retries(api: Api, engine: FakeEngine) -> None:
    engine.progress = [
        progress("g", "orders", 0, committed=1, delivered=2, max_offset=5),
        progress("g", "%RETRY%g", 0, committed=0, delivered=0, max_offset=7),
    ]

    body = api.get("/groups/g").json()
    offsets = api.get("/groups/g/offsets").json()["items"]

    assert (body["lag"], body["retry_lag"]) == ("11", "7")
    assert body["topics"] == ["%RETRY%g", "orders"]
    assert [row["is_retry"] for row in offsets] == [True, False]


@pytest.mark.django_db
@pytest.mark.parametrize("group", ["g", LONG])
def test_progress_in_a_retry_topic_has_its_row(group: str) -> None:
    topic = f"%RETRY%{group}"
    projector = OffsetProjector()
    found = [progress(group, topic, 0, committed=0, delivered=0, max_offset=3)]

    first = projector.project(found, now_ms=0)
    moved = [progress(group, topic, 0, committed=2, delivered=3)]
    second = projector.project(moved, now_ms=1_000)

    assert (first, second) == (1, 1)
    row = ConsumerOffset.objects.get()
    assert (row.topic, row.queue, row.committed, row.delivered) == (topic, 0, 2, 3)
