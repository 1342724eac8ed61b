"""Rows of the database as jobs read them, without Spark."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.deadletters.models import DeadLetter
from apps.groups.models import LockTransition, Rebalance
from apps.metrics.models import GroupSample, TopicSample
from apps.pipelines.columns import Kind
from apps.pipelines.tables import TABLES

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from apps.pipelines.spark import inputs  # noqa: E402
from apps.pipelines.spark.jobs import Window  # noqa: E402

pytestmark = pytest.mark.django_db

START = datetime(2026, 11, 22, 10, tzinfo=UTC)
WINDOW = Window(start=START, end=START + timedelta(hours=1))


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def sample(minute: float, *, seconds: int = 60, group: str = "g", **values: Any) -> None:
    GroupSample.objects.create(
        group=group, topic="orders", resolution_s=seconds, at=at(minute), samples=1,
        queue_count=4, **values,
    )  # fmt: skip


def shared_out(number: int, minute: float, group: str, *clients: str) -> None:
    Rebalance.objects.create(
        store_id="s", number=number, at=at(minute), group=group, generation=number, reason="join",
        strategy="AVG", assignment={name: {"orders": [0]} for name in clients}, queues_moved=3,
    )  # fmt: skip


def changed(number: int, minute: float, queue: int, owner: str, change: str) -> None:
    LockTransition.objects.create(
        store_id="s", number=number, at=at(minute), group="g", topic="orders", queue=queue,
        change=change, owner=owner, epoch=number,
    )  # fmt: skip


def test_progress_joins_what_was_sent_and_who_was_there() -> None:
    sample(0, lag=5, consume_rate=1.5, committed=100)
    sample(1)
    sample(1, group="other", lag=7)
    sample(1, seconds=5, lag=1)
    sample(60, lag=9)
    TopicSample.objects.create(
        topic="orders", resolution_s=60, at=at(0), samples=1, sent=10, send_rate=2.5
    )
    shared_out(1, -90, "g", "a")
    shared_out(2, 0.5, "g", "a", "b")
    shared_out(3, 0.9, "g")

    assert list(inputs.progress_rows(WINDOW)) == [
        # Two for a part of the minute.
        ("g", "orders", at(0), 5, 2.5, 1.5, 100, 2),
        ("g", "orders", at(1), None, None, None, None, 0),
        ("other", "orders", at(1), 7, None, None, None, None),
    ]


@pytest.mark.parametrize(("kept", "expected"), [((5,), 5), ((5, 3600), 3600), ((3600, 60), 60)])
def test_progress_is_of_minutes_else_of_hours_else_as_fine_as_it_was_taken(
    kept: tuple[int, ...], expected: int
) -> None:
    for seconds in kept:
        sample(0, seconds=seconds, lag=seconds)

    assert [row[3] for row in inputs.progress_rows(WINDOW)] == [expected]


def test_rebalances_are_those_of_the_window() -> None:
    for number, minute in enumerate((-1, 0, 59, 60), 1):
        shared_out(number, minute, "g", "a", "b")

    assert list(inputs.rebalance_rows(WINDOW)) == [
        ("g", at(0), 2, "join", 3, 2),
        ("g", at(59), 3, "join", 3, 2),
    ]


def test_of_each_lock_it_is_known_how_it_was_when_the_window_began() -> None:
    changed(1, -90, 0, "a", "acquired")
    changed(2, -80, 0, "", "released")
    changed(3, -70, 1, "b", "acquired")
    changed(4, 5, 0, "c", "acquired")
    changed(5, 60, 1, "", "released")

    assert sorted(inputs.lock_rows(WINDOW)) == [
        ("g", "orders", 0, at(-80), "released", "", 2),
        ("g", "orders", 0, at(5), "acquired", "c", 4),
        ("g", "orders", 1, at(-70), "acquired", "b", 3),
    ]


def test_letters_are_rows_and_rows_are_columns_of_their_types() -> None:
    for offset, minute in enumerate((-1, 10, 60)):
        DeadLetter.objects.create(
            store_id="s", group="g", queue_offset=offset, origin_topic="orders",
            message_id=f"m{offset}", attempts=17, reason="KeyError('x')", dead_at=at(minute),
            size_bytes=1,
        )  # fmt: skip

    found = inputs.arrow_of(TABLES["input.letters"], inputs.letter_rows(WINDOW))

    assert found.to_pylist() == [
        {
            "group": "g",
            "topic": "orders",
            "message_id": "m1",
            "attempts": 17,
            "reason": "KeyError('x')",
            "first_failed_at": None,
            "dead_at": at(10),
            "state": "waiting",
        }
    ]


@pytest.mark.parametrize("name", [name for name in TABLES if name.startswith("input.")])
def test_a_table_without_rows_has_its_columns(name: str) -> None:
    table = TABLES[name]

    found = inputs.arrow_of(table, inputs._READERS[name](WINDOW))

    assert (found.num_rows, tuple(found.column_names)) == (0, table.names())
    kinds = {Kind.LONG: pa.int64(), Kind.MOMENT: pa.timestamp("us", tz="UTC")}
    for column, field in zip(table.columns, found.schema, strict=True):
        assert field.nullable == column.is_nullable
        assert field.type == kinds.get(column.kind, field.type)
