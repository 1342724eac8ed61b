"""Acts that no route leads to: of the clockwork and of commands; and what is none."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.audit.models import AuditEntry
from apps.clockwork.house import HOUSE_TASKS
from apps.clockwork.ticking import tick
from apps.core import origins
from apps.pipelines.models import PipelineRun, Trigger
from apps.pipelines.services import asking
from apps.topics import services as topics
from apps.topics.models import Topic
from mqweb.celery import app
from tests.web.fake_engine import FakeEngine

app.loader.import_default_modules()

START = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.mark.django_db(transaction=True)
def test_a_topic_that_expires_is_an_act_of_the_clockwork(engine: FakeEngine) -> None:
    topics.create_or_change_topic(name="orders", expires_ms=1_000, by="ann")
    Topic.objects.update(used_at=START)

    tick(HOUSE_TASKS["topics.expire_unused_topics"], {}, again=lambda: None)

    entry = AuditEntry.objects.first()
    assert entry is not None
    assert (entry.act, entry.by, entry.door, entry.agent, entry.name) == (
        "topic.expire", "clockwork", "task", "topics.expire_unused_topics", "orders",
    )  # fmt: skip
    assert entry.before["expires_ms"] == 1_000
    assert not Topic.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_backfill_by_a_command_is_one_act() -> None:
    command = origins.Origin(door=origins.Door.COMMAND, agent="manage.py spark_job")

    with origins.come_from(command):
        asking.backfill(
            job="loss", start=START, end=START + timedelta(hours=5), step=timedelta(hours=1),
            by="command",
        )  # fmt: skip

    asked, done = AuditEntry.objects.order_by("number")
    assert (asked.act, asked.result, done.result, done.follows) == (
        "pipeline.backfill", "asked", "done", asked.number,
    )  # fmt: skip
    assert (done.door, done.agent, done.after["made"]) == ("command", "manage.py spark_job", 5)


@pytest.mark.django_db
def test_what_the_schedule_asks_for_nobody_has_asked_for() -> None:
    asking.ask(
        job="loss", window_start=START, window_end=START + timedelta(hours=1),
        trigger=Trigger.SCHEDULE, by="schedule",
    )  # fmt: skip

    assert PipelineRun.objects.count() == 1
    assert not AuditEntry.objects.exists()


@pytest.mark.django_db
def test_a_call_that_changes_nothing_is_no_act(engine: FakeEngine) -> None:
    topics.create_or_change_topic(name="orders", queue_count=2, by="ann")

    topics.create_or_change_topic(name="orders", queue_count=2, by="ann")

    assert [entry.act for entry in AuditEntry.objects.all()] == ["topic.create"]
