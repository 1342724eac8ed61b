"""How a topic keeps its messages: put when it is made, kept, fixed, and known to the engine."""

import pytest
from django.db import IntegrityError, transaction

from apps.engine.types import Cleanup
from apps.topics import services
from apps.topics.models import Topic
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_topic_is_compacted_from_its_begin_and_for_ever(api: Api, engine: FakeEngine) -> None:
    made = api.put("/topics/prices", {"cleanup": "compact"})
    plain = api.put("/topics/orders", {})
    kept = api.put("/topics/prices", {"cleanup": "compact", "perm": 4})

    assert (made.status_code, made.json()["cleanup"]) == (201, "compact")
    assert (plain.status_code, plain.json()["cleanup"]) == (201, "delete")
    assert (kept.status_code, kept.json()["cleanup"]) == (200, "compact")
    assert engine.catalog.topics["prices"].cleanup is Cleanup.COMPACT
    assert engine.catalog.topics["orders"].cleanup is Cleanup.DELETE
    assert made.json()["queues"][0]["kept_messages"] is None
    assert made.json()["queues"][0]["compacted_at"] is None


def test_it_is_fixed_when_the_topic_is_made(api: Api, engine: FakeEngine) -> None:
    api.put("/topics/prices", {"cleanup": "compact"})
    api.put("/topics/orders", {})

    for topic, cleanup in (("prices", "delete"), ("orders", "compact")):
        answer = api.put(f"/topics/{topic}", {"cleanup": cleanup})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_argument")
    assert engine.catalog.topics["orders"].cleanup is Cleanup.DELETE


def test_a_compacted_topic_has_no_age(api: Api, engine: FakeEngine) -> None:
    both = api.put("/topics/prices", {"cleanup": "compact", "retention_ms": 60_000})
    api.put("/topics/prices", {"cleanup": "compact"})
    later = api.put("/topics/prices", {"retention_ms": 60_000})

    assert (both.status_code, later.status_code) == (422, 422)
    assert engine.catalog.topics["prices"].retention_ms is None


@pytest.mark.parametrize("value", ["COMPACT", "", None, 1])
def test_a_way_nobody_knows_is_refused(api: Api, engine: FakeEngine, value: object) -> None:
    answer = api.put("/topics/prices", {"cleanup": value})

    assert answer.status_code == 422
    assert [entry["pointer"] for entry in answer.json()["errors"]] == ["/cleanup"]
    assert not Topic.objects.exists()


def test_rows_cannot_hold_what_services_refuse() -> None:
    services.create_or_change_topic(name="prices", cleanup=Cleanup.COMPACT)

    for wrong in ({"cleanup": "sometimes"}, {"retention_ms": 60_000}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Topic.objects.update(**wrong)
