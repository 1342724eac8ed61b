"""GET /series and /series/{name}: shapes, totals, gaps, and what is refused."""

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from apps.engine.clock import SystemClock
from apps.metrics import selectors
from apps.metrics.models import GroupSample, StoreSample, TopicSample
from apps.metrics.resolutions import FINE, HOUR, MINUTE
from tests.web.conftest import Api
from tests.web.metrics.fakes import START_MS, group_sample, store_sample, topic_sample

pytestmark = pytest.mark.django_db

FROM = "2027-01-15T08:00:00Z"
TO = "2027-01-15T09:00:00Z"


@pytest.fixture(autouse=True)
def at_nine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the API think that it is the end of the hour."""
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _clock: START_MS + HOUR.ms)


def values(answer: Any) -> list[tuple[str, Any, Any, Any]]:
    """Return time of day, value and extremes of the points."""
    assert answer.status_code == 200, answer.content
    return [
        (point["at"][11:19], point["value"], point["min"], point["max"])
        for point in answer.json()["points"]
    ]


def test_a_series_of_a_topic(api: Api) -> None:
    topic_sample(START_MS, "orders", send_rate=1.23456).save()
    topic_sample(START_MS + 5_000, "orders", send_rate=None).save()
    topic_sample(START_MS + 20_000, "orders", send_rate=0.0).save()
    topic_sample(START_MS, "other", send_rate=7.0).save()

    answer = api.get("/series/send_rate", topic="orders", **{"from": FROM, "to": TO})

    body = answer.json()
    assert {name: body[name] for name in ("name", "topic", "group", "resolution_s", "unit")} == {
        "name": "send_rate",
        "topic": "orders",
        "group": None,
        "resolution_s": 5,
        "unit": "messages/s",
    }
    assert body["points"][0] == {
        "at": "2027-01-15T08:00:00.000Z", "value": 1.235, "min": 1.235, "max": 1.235,
    }  # fmt: skip
    # A slot that was sampled and unknown is null; one that was not sampled is missing.
    assert values(answer) == [
        ("08:00:00", 1.235, 1.235, 1.235),
        ("08:00:05", None, None, None),
        ("08:00:20", 0.0, 0.0, 0.0),
    ]
    assert body["sampled_at"].endswith("Z")


def test_counts_are_strings_because_they_have_64_bits(api: Api) -> None:
    topic_sample(START_MS, "orders", sent=2**62 + 1).save()

    answer = api.get("/series/sent", topic="orders")

    number = str(2**62 + 1)
    assert values(answer) == [("08:00:00", number, number, number)]
    assert answer.json()["unit"] == "messages"


def test_without_topic_and_group_a_series_is_the_totals(api: Api) -> None:
    store_sample(START_MS, lag=5, consume_rate=2.0).save()
    group_sample(START_MS, "g", "a", lag=99).save()

    assert values(api.get("/series/lag")) == [("08:00:00", "5", "5", "5")]
    assert values(api.get("/series/consume_rate")) == [("08:00:00", 2.0, 2.0, 2.0)]


@pytest.mark.parametrize(
    ("query", "lag"),
    [
        ({"group": "g", "topic": "a"}, "1"),
        ({"group": "g"}, "11"),
        ({"topic": "a"}, "101"),
        ({"group": "nobody"}, None),
    ],
)
def test_what_is_not_named_is_added_up(api: Api, query: dict[str, str], lag: str | None) -> None:
    for group, topic, found in (("g", "a", 1), ("g", "b", 10), ("h", "a", 100)):
        group_sample(START_MS, group, topic, lag=found).save()

    points = values(api.get("/series/lag", **query))

    assert points == ([] if lag is None else [("08:00:00", lag, lag, lag)])


def test_the_extremes_of_a_sum_over_a_minute_are_unknown(api: Api) -> None:
    for topic in ("a", "b"):
        group_sample(START_MS, "g", topic, resolution_s=60, lag=3).save()
    group_sample(START_MS + 60_000, "g", "a", resolution_s=60, lag=4).save()

    points = values(api.get("/series/lag", group="g", resolution="60"))

    assert points == [("08:00:00", "6", None, None), ("08:01:00", "4", "4", "4")]


def test_a_sum_of_rates_leaves_out_what_is_unknown(api: Api) -> None:
    group_sample(START_MS, "g", "a", consume_rate=2.0).save()
    group_sample(START_MS, "g", "b", consume_rate=None).save()
    group_sample(START_MS + 5_000, "g", "b", consume_rate=None).save()

    points = values(api.get("/series/consume_rate", group="g"))

    assert [value for _, value, _, _ in points] == [2.0, None]


def test_from_is_included_and_to_is_not(api: Api) -> None:
    for second in (0, 5, 10):
        store_sample(START_MS + second * 1000, lag=second).save()

    points = values(
        api.get("/series/lag", **{"from": str(START_MS), "to": "2027-01-15T09:00:10+01:00"})
    )

    assert [value for _, value, _, _ in points] == ["0", "5"]


@pytest.mark.parametrize(
    ("query", "resolution_s"),
    [
        ({}, 5),
        ({"from": "2027-01-15T06:00:00Z"}, 60),
        ({"from": "2027-01-01T00:00:00Z"}, 3600),
        ({"from": "2027-01-15T06:00:00Z", "resolution": "5"}, 5),
    ],
)
def test_the_finest_resolution_of_a_thousand_points_is_taken(
    api: Api, query: dict[str, str], resolution_s: int
) -> None:
    assert api.get("/series/lag", **query).json()["resolution_s"] == resolution_s


@pytest.mark.parametrize(
    ("name", "query", "pointer"),
    [
        ("lag", {"from": "yesterday"}, "/from"),
        ("lag", {"from": "2027-01-15T08:00:00"}, "/from"),
        ("lag", {"to": "2027-02-31T08:00:00Z"}, "/to"),
        ("lag", {"to": "9" * 15}, "/to"),
        ("lag", {"to": "9" * 5_000}, "/to"),
        ("lag", {"to": "-1"}, "/to"),
        ("lag", {"from": TO, "to": FROM}, "/from"),
        ("lag", {"from": FROM, "to": FROM}, "/from"),
        ("lag", {"from": "2000-01-01T00:00:00Z"}, "/from"),
        ("lag", {"from": "2027-01-14T08:00:00Z", "resolution": "5"}, "/from"),
        ("lag", {"resolution": "7"}, "/resolution"),
        ("lag", {"topic": "white space"}, "/topic"),
        ("lag", {"group": "nul\0"}, "/group"),
        ("lag", {"group": ""}, "/group"),
        ("sent", {"group": "g"}, "/group"),
        ("send_rate", {"topic": "a", "group": "g"}, "/group"),
        ("log_bytes", {"topic": "a"}, "/topic"),
    ],
)
def test_a_question_without_an_answer_is_refused_with_the_value_named(
    api: Api, name: str, query: dict[str, str], pointer: str
) -> None:
    answer = api.get(f"/series/{name}", **query)

    assert answer.status_code == 422
    assert answer["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "invalid_argument"
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_an_unknown_series_is_a_404_that_says_where_they_are(api: Api) -> None:
    answer = api.get("/series/nonsense")

    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"
    assert "/api/v1/series" in answer.json()["detail"]


def test_the_list_names_every_series_with_its_unit(api: Api) -> None:
    items = api.get("/series").json()["items"]

    assert {item["name"]: item["unit"] for item in items} == {
        "send_rate": "messages/s", "consume_rate": "messages/s", "lag": "messages",
        "in_flight": "messages", "held": "messages", "sent": "messages",
        "committed": "messages", "delivered": "messages", "log_bytes": "bytes",
        "arrive_rate": "messages/s", "oldest_age_ms": "ms", "blocked": "queues",
        "members": "members", "refusal_rate": "refusals/s", "disk_percent": "percent",
    }  # fmt: skip
    assert all(item["meaning"].endswith(".") for item in items)


def test_every_series_of_the_list_answers_by_all_it_says_it_is_kept_by(api: Api) -> None:
    StoreSample.objects.bulk_create([store_sample(START_MS)])
    TopicSample.objects.bulk_create([topic_sample(START_MS, "a")])
    GroupSample.objects.bulk_create([group_sample(START_MS, "g", "a")])

    for item in api.get("/series").json()["items"]:
        query = {"topic": "a"} if item["by_topic"] else {}
        query |= {"group": "g"} if item["by_group"] else {}
        for asked in ({}, query):
            assert len(values(api.get(f"/series/{item['name']}", **asked))) == 1


def test_without_a_database_it_is_a_503_that_says_when_to_come_back(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(selectors, "points", refuse)

    answer = api.get("/series/lag")

    assert answer.status_code == 503
    assert answer.json()["code"] == "database_unavailable"
    assert answer["Retry-After"] == "2"


def test_both_rows_are_in_the_openapi_document() -> None:
    document = Client().get("/api/schema/", headers={"accept": "application/json"}).json()

    assert "get" in document["paths"]["/api/v1/series"]
    parameters = document["paths"]["/api/v1/series/{name}"]["get"]["parameters"]
    assert {parameter["name"] for parameter in parameters} == {
        "name", "topic", "group", "from", "to", "resolution",
    }  # fmt: skip


def test_the_last_hour_is_minutes_and_then_samples() -> None:
    now_ms = START_MS + HOUR.ms
    for at_ms, resolution in (
        (START_MS - 60_000, MINUTE),
        (START_MS, MINUTE),
        (START_MS + 60_000, MINUTE),
        (START_MS + 115_000, FINE),
        (START_MS + 120_000, FINE),
        (START_MS + 130_000, FINE),
    ):
        store_sample(at_ms, resolution_s=resolution.seconds, lag=at_ms - START_MS + 60_000).save()

    found = selectors.totals_of_last_hour(now_ms=now_ms)

    assert [(totals.lag_max, totals.span_ms) for totals in found] == [
        (60_000, 60_000), (120_000, 60_000), (180_000, 5_000), (190_000, 5_000),
    ]  # fmt: skip
