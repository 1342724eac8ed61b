"""A topic's own time of retention: put, kept, taken back, refused, and known to the engine."""

import pytest
from django.db import IntegrityError, transaction

from apps.topics import services
from apps.topics.models import Topic
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_time_is_put_answered_kept_and_taken_back(api: Api, engine: FakeEngine) -> None:
    made = api.put("/topics/orders", {"retention_ms": 60_000})
    kept = api.put("/topics/orders", {"perm": 4})
    told = engine.catalog.topics["orders"].retention_ms
    listed = api.get("/topics").json()["items"]
    taken_back = api.put("/topics/orders", {"retention_ms": None})

    assert (made.status_code, made.json()["retention_ms"]) == (201, 60_000)
    assert kept.json()["retention_ms"] == told == 60_000
    assert [item["retention_ms"] for item in listed] == [60_000]
    assert (taken_back.status_code, taken_back.json()["retention_ms"]) == (200, None)
    assert engine.catalog.topics["orders"].retention_ms is None


@pytest.mark.parametrize("value", [59_999, 316_224_000_001, 0, -1, 1e5, "60000", True])
def test_a_time_out_of_range_is_refused(api: Api, engine: FakeEngine, value: object) -> None:
    answer = api.put("/topics/orders", {"retention_ms": value})

    assert answer.status_code == 422
    assert [entry["pointer"] for entry in answer.json()["errors"]] == ["/retention_ms"]
    assert not Topic.objects.exists()


def test_rows_cannot_hold_what_services_refuse() -> None:
    services.create_or_change_topic(name="orders")

    with pytest.raises(IntegrityError), transaction.atomic():
        Topic.objects.update(retention_ms=1)
