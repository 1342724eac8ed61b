"""The admin's forms: they go through the same service as the API."""

from typing import Any

import pytest
from django.test import Client

from apps.audit.models import AuditEntry
from apps.groups.models import ConsumerOffset
from apps.topics import services
from apps.topics.models import MessageQueue, Topic
from tests.web.fake_engine import FakeEngine
from tests.web.group_values import member, wants

pytestmark = pytest.mark.django_db(transaction=True)


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


def test_topics_are_deleted_one_by_one_and_by_choice_for_a_reason_that_is_kept(
    admin: Client, engine: FakeEngine
) -> None:
    first, second = (
        services.create_or_change_topic(name=name).topic for name in ("first", "second")
    )
    said = {"apply": "1", "reason": "made by mistake"}

    asked = admin.get(f"/admin/topics/topic/{first.pk}/delete/").content.decode()
    unsaid = admin.post(f"/admin/topics/topic/{first.pk}/delete/", {"apply": "1"})
    assert "first: 0 messages; no group reads it" in asked
    assert (unsaid.status_code, Topic.objects.count()) == (200, 2)
    one = admin.post(f"/admin/topics/topic/{first.pk}/delete/", said)
    chosen = {"action": "delete_topics", "_selected_action": [second.pk]}
    page = admin.post("/admin/topics/topic/", chosen).content.decode()
    assert "second: 0 messages" in page
    assert Topic.objects.count() == 1
    several = admin.post("/admin/topics/topic/", {**chosen, **said})

    assert (one.status_code, several.status_code) == (302, 302)
    assert dict(engine.catalog.topics) == {}
    assert not MessageQueue.objects.exists()
    kept = AuditEntry.objects.filter(act="topic.delete").values_list("name", "by", "reason")
    assert set(kept) == {(name, "root", "made by mistake") for name in ("first", "second")}


def test_a_topic_that_is_read_goes_only_where_that_was_said(
    admin: Client, engine: FakeEngine
) -> None:
    topic = services.create_or_change_topic(name="orders").topic
    engine.joined = [member("billing", "till-1", wants("orders"))]
    address = f"/admin/topics/topic/{topic.pk}/delete/"

    asked = admin.get(address).content.decode()
    refused = admin.post(address, {"apply": "1", "reason": "old"}, follow=True).content.decode()

    assert "it is read by billing" in asked
    assert "is in use, by billing" in refused
    assert Topic.objects.exists()
    admin.post(address, {"apply": "1", "reason": "old", "even_in_use": "on"})
    assert not Topic.objects.exists()


def test_djangos_own_deletion_of_many_is_not_offered(admin: Client, engine: FakeEngine) -> None:
    topic = services.create_or_change_topic(name="orders").topic
    chosen = {"action": "delete_selected", "_selected_action": [topic.pk], "post": "yes"}

    admin.post("/admin/topics/topic/", chosen)

    assert "delete_selected" not in admin.get("/admin/topics/topic/").content.decode()
    assert Topic.objects.exists()


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
