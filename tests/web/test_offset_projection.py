"""The projection of progress into rows."""

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from apps.groups.models import ConsumerOffset
from apps.groups.projection.offsets import OffsetProjector
from tests.web.fake_engine import progress

pytestmark = pytest.mark.django_db


def rows() -> list[tuple[str, str, int, int, int]]:
    return list(
        ConsumerOffset.objects.values_list("group", "topic", "queue", "committed", "delivered")
    )


def test_progress_becomes_rows_in_one_statement() -> None:
    found = [progress("g", "t", queue, committed=queue, delivered=9) for queue in range(3)]

    with CaptureQueriesContext(connection) as queries:
        written = OffsetProjector().project(found, now_ms=0)

    assert written == 3
    assert rows() == [("g", "t", 0, 0, 9), ("g", "t", 1, 1, 9), ("g", "t", 2, 2, 9)]
    inserts = [query for query in queries.captured_queries if query["sql"].startswith("INSERT")]
    assert len(inserts) == 1


def test_only_what_changed_is_written_again() -> None:
    projector = OffsetProjector()
    projector.project(
        [progress("g", "t", queue, committed=0, delivered=0) for queue in range(3)], now_ms=0
    )

    moved = [progress("g", "t", queue, committed=queue, delivered=queue) for queue in range(3)]
    written = projector.project(moved, now_ms=1000)

    assert written == 2
    ages = ConsumerOffset.objects.values_list("updated_at", flat=True)
    assert [moment.timestamp() for moment in ages] == [0.0, 1.0, 1.0]


def test_nothing_new_asks_nothing_of_the_database() -> None:
    projector = OffsetProjector()
    found = [progress("g", "t", 0, committed=1, delivered=1)]
    projector.project(found, now_ms=0)

    with CaptureQueriesContext(connection) as queries:
        written = projector.project(found, now_ms=1)

    assert (written, len(queries)) == (0, 0)


def test_rows_that_go_back_at_a_start_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    before = [progress("g", "t", queue, committed=9, delivered=9) for queue in range(3)]
    OffsetProjector().project(before, now_ms=0)
    projector = OffsetProjector()
    now = [progress("g", "t", queue, committed=8 + queue, delivered=12) for queue in range(3)]

    projector.project(now, now_ms=1)
    # Later a row goes back because somebody has reset it.
    projector.project([progress("g", "t", 2, committed=0, delivered=12)], now_ms=2)

    (line,) = [line for line in caplog.records if line.message == "progress_ahead_of_log"]
    assert (line.count, line.group, line.topic, line.queue) == (1, "g", "t", 0)


def test_a_start_overwrites_rows_of_the_time_before() -> None:
    OffsetProjector().project([progress("g", "t", 0, committed=9, delivered=9)], now_ms=0)

    OffsetProjector().project([progress("g", "t", 0, committed=3, delivered=4)], now_ms=1)

    assert rows() == [("g", "t", 0, 3, 4)]


def test_what_the_database_refused_is_written_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    projector = OffsetProjector()
    found = [progress("g", "t", 0, committed=1, delivered=1)]
    attempts: list[int] = []

    def refuse(*_: object, **__: object) -> None:
        attempts.append(1)
        raise DatabaseError("away")

    with monkeypatch.context() as patch:
        patch.setattr(ConsumerOffset.objects, "bulk_create", refuse)
        with pytest.raises(DatabaseError):
            projector.project(found, now_ms=0)
    written = projector.project(found, now_ms=1)

    assert attempts == [1]
    assert written == 1
    assert rows() == [("g", "t", 0, 1, 1)]
