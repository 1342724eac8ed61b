"""What the database itself refuses, whatever program writes to it."""

from typing import Any

import pytest
from django.db import IntegrityError

from apps.groups.models import ConsumerOffset
from apps.topics.models import CatalogVersion, MessageQueue, Topic

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"name": "white space"}, "topic_name_is_valid"),
        ({"name": ""}, "topic_name_is_valid"),
        ({"name": "a\n"}, "topic_name_is_valid"),
        ({"type": "ODD"}, "topic_type_is_known"),
        ({"queue_count": 0}, "topic_queue_count_in_range"),
        ({"queue_count": 1025}, "topic_queue_count_in_range"),
        ({"perm": 1}, "topic_perm_is_known"),
    ],
)
def test_a_bad_topic_row_is_refused(values: dict[str, Any], constraint: str) -> None:
    with pytest.raises(IntegrityError, match=constraint):
        Topic.objects.create(**{"name": "orders", **values})


def test_a_queue_number_is_there_once_a_topic() -> None:
    topic = Topic.objects.create(name="orders")
    MessageQueue.objects.create(topic=topic, number=0)

    with pytest.raises(IntegrityError, match="queue_number_once_a_topic"):
        MessageQueue.objects.create(topic=topic, number=0)


def test_the_version_is_one_row() -> None:
    with pytest.raises(IntegrityError, match="catalog_version_is_one_row"):
        CatalogVersion.objects.create(pk=2, version=1)


def test_nothing_is_committed_before_it_is_delivered() -> None:
    with pytest.raises(IntegrityError, match="offset_committed_after_delivery"):
        ConsumerOffset.objects.create(
            group="g", topic="t", queue=0, committed=2, delivered=1, updated_at="2026-01-01T00:00Z"
        )
