"""Lite topics for operators: the type, what goes with it, and what there is, by API and admin."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from apps.engine.litetypes import LiteModel, LiteSubscription, LiteTopic
from apps.engine.types import CatalogSnapshot, TopicSpec, TopicType
from apps.groups.models import ConsumerGroup
from apps.topics import services, snapshot
from apps.topics.models import Topic
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine
from tests.web.group_values import NOW_MS

pytestmark = pytest.mark.django_db(transaction=True)

LITE = {"type": "LITE"}


def a_lite(name: str, *, count: int = 1, last_ms: int | None = NOW_MS) -> LiteTopic:
    return LiteTopic(
        name=name,
        topic=f"%LITE%inbox|{name}",
        min_offset=0,
        max_offset=count,
        last_ms=last_ms,
        subscribers=2,
    )


# --- the type -------------------------------------------------------------------------------------


def test_a_topic_of_lite_topics_reaches_the_engine(api: Api, engine: FakeEngine) -> None:
    made = api.put("/topics/inbox", {**LITE, "lite_ttl_minutes": 15})

    assert (made.status_code, made.json()["type"]) == (201, "LITE")
    assert made.json()["lite_ttl_minutes"] == 15
    spec = engine.catalog.topics["inbox"]
    assert (spec.type, spec.lite_ttl_ms) == (TopicType.LITE, 900_000)


def test_how_long_lite_topics_live_is_changed_and_taken_back(api: Api, engine: FakeEngine) -> None:
    api.put("/topics/inbox", LITE)
    before = engine.catalog.topics["inbox"].lite_ttl_ms
    api.put("/topics/inbox", {"lite_ttl_minutes": 43_200})
    longest = engine.catalog.topics["inbox"].lite_ttl_ms
    api.put("/topics/inbox", {"perm": 6})
    kept = engine.catalog.topics["inbox"].lite_ttl_ms
    api.put("/topics/inbox", {"lite_ttl_minutes": None})

    assert (before, longest, kept) == (None, 30 * 86_400_000, 30 * 86_400_000)
    assert engine.catalog.topics["inbox"].lite_ttl_ms is None


@pytest.mark.parametrize(
    "document",
    [
        {**LITE, "lite_ttl_minutes": 14},
        {**LITE, "lite_ttl_minutes": 43_201},
        {**LITE, "lite_ttl_minutes": "15"},
        {"lite_ttl_minutes": 15},
        {"type": "FIFO", "lite_ttl_minutes": 15},
        {**LITE, "cleanup": "compact"},
    ],
)
def test_what_does_not_go_together_is_refused(
    api: Api, engine: FakeEngine, document: dict[str, Any]
) -> None:
    answer = api.put("/topics/inbox", document)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_argument")
    assert not Topic.objects.exists()


@pytest.mark.parametrize(("first", "then"), [("LITE", "MIXED"), ("MIXED", "LITE")])
def test_a_topic_has_lite_topics_from_the_first_or_never(
    api: Api, engine: FakeEngine, first: str, then: str
) -> None:
    api.put("/topics/inbox", {"type": first})

    answer = api.put("/topics/inbox", {"type": then})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_argument")
    assert engine.catalog.topics["inbox"].type == first


@pytest.mark.parametrize("name", ["%LITE%inbox|a", "%LITE%"])
def test_nobody_makes_a_topic_that_is_named_like_a_lite_one(
    api: Api, engine: FakeEngine, name: str
) -> None:
    answer = api.put(f"/topics/{name.replace('%', '%25').replace('|', '%7C')}", {})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_name")


def test_rows_cannot_hold_what_services_refuse() -> None:
    services.create_or_change_topic(name="inbox", type=TopicType.LITE)

    for wrong in (
        {"lite_ttl_minutes": 14},
        {"type": "MIXED", "lite_ttl_minutes": 15},
        {"cleanup": "compact"},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            Topic.objects.update(**wrong)


def test_a_lost_database_learns_the_type_from_the_engine(engine: FakeEngine) -> None:
    spec = TopicSpec(name="inbox", queue_count=1, type=TopicType.LITE, lite_ttl_ms=900_000)
    engine.publish_catalog(CatalogSnapshot(version=7, topics={"inbox": spec}))

    snapshot.keep()

    row = Topic.objects.get(name="inbox")
    assert (row.type, row.lite_ttl_minutes) == ("LITE", 15)
    assert engine.catalog.topics == {"inbox": spec}


# --- what there is --------------------------------------------------------------------------------


def test_lite_topics_are_listed_by_name_page_by_page(api: Api, engine: FakeEngine) -> None:
    api.put("/topics/inbox", LITE)
    engine.lites["inbox"] = [a_lite("a"), a_lite("b", count=3, last_ms=None), a_lite("c")]

    first = api.get("/topics/inbox/lite-topics?limit=2").json()
    second = api.get(f"/topics/inbox/lite-topics?limit=2&cursor={first['next_cursor']}").json()

    assert [item["name"] for item in first["items"]] == ["a", "b"]
    assert first["items"][1] == {
        "name": "b",
        "topic": "%LITE%inbox|b",
        "min_offset": "0",
        "max_offset": "3",
        "newest_at": None,
        "subscribers": 2,
    }
    assert first["items"][0]["newest_at"] == "2025-11-13T02:13:20.000Z"
    assert [item["name"] for item in second["items"]] == ["c"]
    assert (first["total"], second["total"], second["next_cursor"]) == (3, 3, None)


def test_a_page_that_ends_where_they_end_is_the_last(api: Api, engine: FakeEngine) -> None:
    api.put("/topics/inbox", LITE)
    engine.lites["inbox"] = [a_lite("a"), a_lite("b")]

    assert api.get("/topics/inbox/lite-topics?limit=2").json()["next_cursor"] is None


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/topics/nope/lite-topics", "unknown_topic"),
        ("/topics/orders/lite-topics", "invalid_argument"),
        ("/topics/orders/lite-topics?limit=0", "invalid_argument"),
    ],
)
def test_what_has_none_says_so(api: Api, engine: FakeEngine, path: str, code: str) -> None:
    api.put("/topics/orders", {})

    assert api.get(path).json()["code"] == code


def test_clients_and_their_lite_topics_are_listed(api: Api, engine: FakeEngine) -> None:
    engine.subscribed["g"] = [
        LiteSubscription(
            client_id=client, topic="inbox", names=("a", "b"), count=2, seen_ms=NOW_MS, lag=7
        )
        for client in ("c1", "c2")
    ]

    first = api.get("/groups/g/lite-subscriptions?limit=1").json()
    second = api.get(f"/groups/g/lite-subscriptions?cursor={first['next_cursor']}").json()

    assert first["items"] == [
        {
            "client_id": "c1",
            "topic": "inbox",
            "lite_topics": ["a", "b"],
            "count": 2,
            "lag": "7",
            "seen_at": "2025-11-13T02:13:20.000Z",
        }
    ]
    assert [item["client_id"] for item in second["items"]] == ["c2"]
    assert api.get("/groups/other/lite-subscriptions").json()["items"] == []


# --- groups and the admin -------------------------------------------------------------------------


def test_a_group_says_whether_its_clients_share_lite_topics(api: Api, engine: FakeEngine) -> None:
    made = api.put("/groups/g", {"lite_model": "EXCLUSIVE"})
    other = api.put("/groups/h", {})

    assert (made.json()["lite_model"], other.json()["lite_model"]) == ("EXCLUSIVE", "SHARED")
    assert engine.catalog.groups["g"].lite_model is LiteModel.EXCLUSIVE
    assert api.put("/groups/g", {"lite_model": "ours"}).status_code == 422
    with pytest.raises(IntegrityError), transaction.atomic():
        ConsumerGroup.objects.update(lite_model="ours")


def form(**values: Any) -> dict[str, Any]:
    return {"name": "inbox", "type": "LITE", "queue_count": 4, "perm": 6, **values}


def test_the_admin_makes_topics_of_lite_topics(admin: Client, engine: FakeEngine) -> None:
    answer = admin.post("/admin/topics/topic/add/", form(lite_ttl_minutes=20))

    assert answer.status_code == 302
    assert engine.catalog.topics["inbox"].lite_ttl_ms == 1_200_000


@pytest.mark.parametrize(
    "values",
    [
        {"lite_ttl_minutes": 14},
        {"type": "MIXED", "lite_ttl_minutes": 20},
        {"cleanup": "compact"},
    ],
)
def test_the_admin_refuses_what_the_service_refuses(
    admin: Client, engine: FakeEngine, values: dict[str, Any]
) -> None:
    answer = admin.post("/admin/topics/topic/add/", form(**values))

    assert answer.status_code == 200
    assert b"errorlist" in answer.content
    assert not Topic.objects.exists()


def test_the_admin_keeps_the_type_of_a_topic(admin: Client, engine: FakeEngine) -> None:
    topic = services.create_or_change_topic(name="inbox", type=TopicType.LITE).topic

    answer = admin.post(f"/admin/topics/topic/{topic.pk}/change/", form(type="MIXED"))

    assert answer.status_code == 200
    assert b"from the first or never" in answer.content
    assert engine.catalog.topics["inbox"].type is TopicType.LITE
