"""Deleting a topic: why is written down, and what somebody reads stays unless that is said."""

import pytest

from apps.audit.models import AuditEntry
from apps.audit.services import write_refusals
from apps.engine.types import GroupProgress
from apps.topics import services
from apps.topics.models import Topic
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine
from tests.web.group_values import member, wants

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def orders(engine: FakeEngine) -> FakeEngine:
    """Return an engine in which a member of `billing` reads the topic orders."""
    services.create_or_change_topic(name="orders")
    engine.joined = [member("billing", "till-1", wants("orders"))]
    return engine


def last() -> AuditEntry:
    found = AuditEntry.objects.order_by("-number").first()
    assert found is not None
    return found


@pytest.mark.usefixtures("orders")
def test_a_topic_that_is_read_is_not_deleted_and_who_reads_it_is_said(api: Api) -> None:
    # What earlier tests of this minute were refused is counted before.
    write_refusals(is_last=True)

    answer = api.delete("/topics/orders?reason=tidy")
    write_refusals(is_last=True)

    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert "billing" in answer.json()["detail"]
    assert Topic.objects.filter(name="orders").exists()
    assert (last().act, last().result, last().reason) == ("topic.delete", "refused", "tidy")


@pytest.mark.usefixtures("orders")
def test_it_is_deleted_where_that_is_said_and_the_reason_is_kept(api: Api) -> None:
    answer = api.delete("/topics/orders?reason=moved&even_in_use=true")

    assert answer.status_code == 204
    assert not Topic.objects.filter(name="orders").exists()
    assert (last().act, last().result, last().reason) == ("topic.delete", "done", "moved")


def test_a_topic_that_nobody_reads_goes_without_a_word(api: Api, engine: FakeEngine) -> None:
    del engine
    services.create_or_change_topic(name="orders")

    assert api.delete("/topics/orders").status_code == 204


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("query", ["even_in_use=yes", "reason=" + "x" * 1_001, "reason=%00"])
def test_what_cannot_be_meant_is_refused(api: Api, query: str) -> None:
    assert api.delete(f"/topics/orders?{query}").status_code == 422
    assert Topic.objects.filter(name="orders").exists()


def test_a_message_that_is_out_is_use_as_well(api: Api, engine: FakeEngine) -> None:
    services.create_or_change_topic(name="orders")
    engine.progress = [
        GroupProgress(
            group="g", topic="orders", queue=0, committed=0, delivered=1, in_flight=1, max_offset=1
        )
    ]

    assert api.delete("/topics/orders").status_code == 409
