"""What is to come again to a group, and how many of its dead letters wait, by the API."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.deadletters.models import DeadLetter, State
from apps.deadletters.selectors import waiting_letters
from apps.engine.errors import Unreachable
from apps.engine.failuretypes import RetryCount
from apps.engine.types import CatalogSnapshot, GroupSpec
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db


def letter(group: str, offset: int, *, hours: int = 0, **values: Any) -> DeadLetter:
    usual = {"store_id": "0" * 32, "message_id": "x", "attempts": 17, "size_bytes": 1}
    return DeadLetter.objects.create(
        group=group,
        queue_offset=offset,
        dead_at=timezone.now() - timedelta(hours=hours),
        **(usual | values),
    )


def discarded(group: str, offset: int, *, hours: int = 0) -> DeadLetter:
    return letter(
        group, offset, hours=hours, state=State.DISCARDED, discarded_at=timezone.now(),
        discard_reason="no use",
    )  # fmt: skip


def test_every_number_a_group_allows_is_told(api: Api, engine: FakeEngine) -> None:
    engine.catalog = CatalogSnapshot(version=1, groups={"g": GroupSpec(name="g", retry_max=3)})
    engine.to_come["g"] = (RetryCount(failures=2, in_topic=5, delayed=1, in_place=3),)

    body = api.get("/groups/g/retries").json()

    assert body["items"] == [
        {"failures": 1, "in_topic": 0, "delayed": 0, "in_place": 0},
        {"failures": 2, "in_topic": 5, "delayed": 1, "in_place": 3},
        {"failures": 3, "in_topic": 0, "delayed": 0, "in_place": 0},
    ]
    assert (body["failures_max"], body["is_complete"]) == (3, True)
    assert body["dead_letters"] == {"waiting": 0, "oldest_dead_at": None, "died_today": 0}


@pytest.mark.parametrize(
    ("spec", "failures_max", "told"),
    [
        (GroupSpec(name="g", ordered=True), None, [0, 9]),
        (GroupSpec(name="g", retry_max=1_000), 1_000, [0, 9]),
        (GroupSpec(name="g", retry_max=1), 1, [0, 1, 9]),
        (None, 16, [0, *range(1, 17)]),
    ],
)
def test_where_there_is_no_limit_or_a_lower_one_what_there_is_is_told(
    api: Api,
    engine: FakeEngine,
    spec: GroupSpec | None,
    failures_max: int | None,
    told: list[int],
) -> None:
    groups = {} if spec is None else {"g": spec}
    engine.catalog = CatalogSnapshot(version=1, groups=groups)
    engine.to_come["g"] = (RetryCount(failures=0, in_topic=1), RetryCount(failures=9, delayed=1))

    body = api.get("/groups/g/retries").json()

    assert body["failures_max"] == failures_max
    assert [item["failures"] for item in body["items"]] == told


def test_a_look_that_was_cut_says_so(api: Api, engine: FakeEngine) -> None:
    engine.is_counted_whole = False

    assert api.get("/groups/g/retries").json()["is_complete"] is False


def test_its_dead_letters_are_told_with_the_age_of_the_oldest_that_waits(
    api: Api, engine: FakeEngine
) -> None:
    oldest = letter("g", 0, hours=50)
    letter("g", 1, hours=1)
    discarded("g", 2, hours=2)
    letter("other", 3, hours=90)

    told = api.get("/groups/g/retries").json()["dead_letters"]

    assert (told["waiting"], told["died_today"]) == (2, 2)
    assert told["oldest_dead_at"][:19] == oldest.dead_at.isoformat()[:19]


def test_an_engine_that_is_away_is_a_problem(api: Api, engine: FakeEngine) -> None:
    engine.care_refusal = Unreachable("away")

    assert api.get("/groups/g/retries").status_code == 503


def test_groups_come_by_how_many_wait_and_those_with_none_only_where_one_died_today() -> None:
    for offset in range(3):
        letter("many", offset, hours=30)
    letter("few", 0)
    discarded("done", 0)
    discarded("long ago", 0, hours=30)

    found = waiting_letters()

    assert [(one.group, one.waiting, one.died_today) for one in found] == [
        ("many", 3, 0),
        ("few", 1, 1),
        ("done", 0, 1),
    ]
    assert found[2].oldest_at is None
