"""Refusals: kept, and put together so that nobody floods the log by being refused."""

import pytest
from django.db import OperationalError

from apps.audit import services
from apps.audit.models import AuditEntry
from apps.audit.recording import Line
from apps.audit.refusals import KINDS_MAX, MINUTE_MS, WAITING_MAX, Refusal, Tally
from apps.core.origins import Door, Origin

NOW_MS = 1_000 * MINUTE_MS


def refusal(by: str = "eve", name: str = "orders", code: str = "forbidden") -> Refusal:
    return Refusal(
        by=by, act="access.refused", kind="topic", name=name, code=code,
        origin=Origin(door=Door.DATA),
    )  # fmt: skip


def test_the_first_of_a_minute_is_told_at_once_and_the_others_as_a_count() -> None:
    tally = Tally()
    for number in range(1_000):
        tally.note(refusal(name=f"topic-{number % 3}"), now_ms=NOW_MS)
    first = tally.take(now_ms=NOW_MS + 1)
    meanwhile = tally.take(now_ms=NOW_MS + MINUTE_MS - 1)

    (together,) = tally.take(now_ms=NOW_MS + MINUTE_MS)

    assert [(one.name, one.count) for one in first] == [("topic-0", 1)]
    assert meanwhile == []
    assert (together.by, together.count, together.name) == ("eve", 999, "")
    assert set(together.names) == {"topic-0", "topic-1", "topic-2"}


def test_kinds_are_told_apart_up_to_a_number_whoever_knocks() -> None:
    tally = Tally()
    for number in range(50_000):
        tally.note(refusal(by=f"nobody-{number}"), now_ms=NOW_MS)

    found = [*tally.take(now_ms=NOW_MS), *tally.take(now_ms=NOW_MS + MINUTE_MS)]

    assert len(found) == KINDS_MAX + 1
    assert sum(one.count for one in found) == 50_000
    assert found[-1].by == "others"


def test_what_cannot_be_written_for_hours_costs_bounded_memory_and_is_counted() -> None:
    tally = Tally()
    for minute in range(60):
        for number in range(KINDS_MAX):
            tally.note(refusal(by=f"eve-{number}"), now_ms=NOW_MS + minute * MINUTE_MS)

    found = tally.take(now_ms=NOW_MS)

    assert len(found) == WAITING_MAX + 1
    assert sum(one.count for one in found) == 60 * KINDS_MAX


@pytest.mark.django_db
def test_a_refusal_of_a_door_is_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_now_ms", lambda: NOW_MS)
    for _ in range(3):
        services.refused(by="eve", kind="topic", name="orders", code="forbidden", detail="no grant")
    monkeypatch.setattr(services, "_now_ms", lambda: NOW_MS + MINUTE_MS)

    services.write_refusals()

    found = AuditEntry.objects.order_by("number")
    assert [(one.by, one.result, one.code, one.count) for one in found] == [
        ("eve", "refused", "forbidden", 1),
        ("eve", "refused", "forbidden", 2),
    ]


@pytest.mark.django_db
def test_a_door_on_the_loop_counts_and_somebody_else_writes(
    django_assert_num_queries: object,
) -> None:
    with django_assert_num_queries(0):  # type: ignore[operator]
        services.count_refusal(
            by="eve", kind="topic", name="orders", code="forbidden",
            origin=Origin(door=Door.DATA, address="192.0.2.7"),
        )  # fmt: skip

    assert services.write_refusals() == 1
    entry = AuditEntry.objects.get()
    assert (entry.name, entry.door, entry.address) == ("orders", "data", "192.0.2.7")


@pytest.mark.django_db
def test_refusals_of_an_outage_are_written_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    append, faults = services.append, []

    def fail(line: Line) -> AuditEntry:
        faults.append(line)
        raise OperationalError("the database is away")

    monkeypatch.setattr(services, "append", fail)
    services.refused(by="eve", kind="topic", name="orders", code="forbidden")
    with pytest.raises(OperationalError):
        services.write_refusals()
    monkeypatch.setattr(services, "append", append)

    services.write_refusals()

    assert len(faults) == 2
    assert AuditEntry.objects.get().by == "eve"
