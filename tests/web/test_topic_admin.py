"""The admin's forms: they go through the same service as the API."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from apps.groups.models import ConsumerOffset
from apps.topics import services
from apps.topics.models import MessageQueue, Topic
from tests.web.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin() -> Client:
    """Return a browser in which an administrator has signed in."""
    user = get_user_model().objects.create_superuser("root", password="x")
    client = Client()
    client.force_login(user)
    return client


def form(**values: Any) -> dict[str, Any]:
    return {"name": "orders", "type": "MIXED", "queue_count": 4, "perm": 6, **values}


def test_a_topic_added_in_the_admin_reaches_the_engine(admin: Client, engine: FakeEngine) -> None:
    answer = admin.post("/admin/topics/topic/add/", form(queue_count=3))

    assert answer.status_code == 302
    assert engine.catalog.topics["orders"].queue_count == 3
    assert MessageQueue.objects.count() == 3


def test_a_topic_changed_in_the_admin_reaches_the_engine(admin: Client, engine: FakeEngine) -> None:
    topic = services.create_or_change_topic(name="orders").topic

    answer = admin.post(f"/admin/topics/topic/{topic.pk}/change/", form(queue_count=6))

    assert answer.status_code == 302
    assert engine.catalog.topics["orders"].queue_count == 6
    assert Topic.objects.count() == 1


@pytest.mark.parametrize("values", [{"name": "%DLQ%g"}, {"name": "a b"}, {"queue_count": 0}])
def test_the_form_refuses_what_the_service_refuses(
    admin: Client, engine: FakeEngine, values: dict[str, Any]
) -> None:
    answer = admin.post("/admin/topics/topic/add/", form(**values))

    assert answer.status_code == 200
    assert b"errorlist" in answer.content
    assert not Topic.objects.exists()


def test_fewer_queues_asked_for_in_the_admin_drain(admin: Client, engine: FakeEngine) -> None:
    topic = services.create_or_change_topic(name="orders", queue_count=5).topic

    admin.post(f"/admin/topics/topic/{topic.pk}/change/", form(queue_count=4))

    spec = engine.catalog.topics["orders"]
    assert (spec.queue_count, spec.write_queue_count) == (5, 4)


def test_the_form_of_a_topic_that_shrinks_shows_and_keeps_its_target(
    admin: Client, engine: FakeEngine
) -> None:
    topic = services.create_or_change_topic(name="orders", queue_count=5).topic
    services.create_or_change_topic(name="orders", queue_count=2)

    page = admin.get(f"/admin/topics/topic/{topic.pk}/change/")
    admin.post(f"/admin/topics/topic/{topic.pk}/change/", form(queue_count=2, perm=4))

    assert page.context["adminform"].form["queue_count"].value() == 2
    spec = engine.catalog.topics["orders"]
    assert (spec.queue_count, spec.write_queue_count, spec.perm) == (5, 2, 4)


def test_further_queues_wait_where_the_box_is_ticked(admin: Client, engine: FakeEngine) -> None:
    topic = services.create_or_change_topic(name="orders", queue_count=2).topic

    admin.post(f"/admin/topics/topic/{topic.pk}/change/", form(queue_count=4, drain="on"))
    admin.post(f"/admin/topics/topic/{topic.pk}/change/", form(queue_count=4))

    spec = engine.catalog.topics["orders"]
    assert (spec.queue_count, spec.write_queue_count) == (4, 2)


def test_a_topic_is_deleted_with_its_queues_one_by_one_and_by_choice(
    admin: Client, engine: FakeEngine
) -> None:
    first, second = (
        services.create_or_change_topic(name=name).topic for name in ("first", "second")
    )

    one = admin.post(f"/admin/topics/topic/{first.pk}/delete/", {"post": "yes"})
    chosen = admin.post(
        "/admin/topics/topic/",
        {"action": "delete_selected", "_selected_action": [second.pk], "post": "yes"},
    )

    assert (one.status_code, chosen.status_code) == (302, 302)
    assert dict(engine.catalog.topics) == {}
    assert not MessageQueue.objects.exists()


def test_queues_and_offsets_can_be_looked_at_and_not_changed(
    admin: Client, engine: FakeEngine
) -> None:
    services.create_or_change_topic(name="orders")
    offset = ConsumerOffset.objects.create(
        group="g", topic="t", queue=0, committed=1, delivered=1, updated_at="2026-01-01T00:00Z"
    )
    queue = MessageQueue.objects.first()
    assert queue is not None

    for model, row in (("topics/messagequeue", queue), ("groups/consumeroffset", offset)):
        assert admin.get(f"/admin/{model}/").status_code == 200
        assert admin.get(f"/admin/{model}/{row.pk}/change/").status_code == 200
        assert admin.get(f"/admin/{model}/add/").status_code == 403
        assert admin.post(f"/admin/{model}/{row.pk}/change/", {}).status_code == 403
        assert admin.post(f"/admin/{model}/{row.pk}/delete/", {"post": "yes"}).status_code == 403


def test_the_admin_is_closed_to_strangers(engine: FakeEngine) -> None:
    answer = Client().get("/admin/topics/topic/")

    assert answer.status_code == 302
    assert answer["location"].startswith("/admin/login/")
