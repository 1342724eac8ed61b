"""Entries and their acts: together or not at all, one chain whoever writes, and never changed."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connection, transaction

from apps.audit import recording, selectors, services
from apps.audit.models import AuditEntry, Result
from apps.audit.services import AuditUnavailable, recorded
from apps.core.origins import Door, Origin, come_from
from apps.engine.errors import InvalidArgument, Unreachable
from apps.topics.models import Topic

pytestmark = pytest.mark.django_db(transaction=True)


def told() -> list[tuple[str, str, str]]:
    """Return act, result and code of each entry, in order."""
    return list(AuditEntry.objects.order_by("number").values_list("act", "result", "code"))


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let the audit log be unable to write; return what it was asked to."""
    faults: list[str] = []

    def fail(line: recording.Line) -> AuditEntry:
        faults.append(line.act)
        raise OperationalError("the database is away")

    monkeypatch.setattr(services, "append", fail)
    return faults


def test_an_entry_says_who_did_what_from_where() -> None:
    origin = Origin(door=Door.API, address="192.0.2.7", agent="mq/1.0")

    with (
        come_from(origin),
        recorded(by="ann", act="topic.change", kind="topic", name="orders", reason="why",
                 before={"perm": 6}) as entry,
    ):  # fmt: skip
        entry.after = {"perm": 4}

    found = AuditEntry.objects.get()
    assert (found.number, found.by, found.door, found.address, found.agent) == (
        1, "ann", "api", "192.0.2.7", "mq/1.0",
    )  # fmt: skip
    assert (found.act, found.kind, found.name, found.reason) == (
        "topic.change", "topic", "orders", "why",
    )  # fmt: skip
    assert (found.before, found.after, found.result) == ({"perm": 6}, {"perm": 4}, Result.DONE)


def test_a_change_whose_entry_cannot_be_written_is_not_made(away: list[str]) -> None:
    with (
        pytest.raises(OperationalError),
        recorded(by="ann", act="topic.create", kind="topic", name="orders"),
    ):
        Topic.objects.create(name="orders")

    assert away == ["topic.create"]
    assert not Topic.objects.exists()


def test_a_change_that_is_refused_is_taken_back_and_the_refusal_kept() -> None:
    def change() -> None:
        with recorded(by="ann", act="topic.create", kind="topic", name="orders"):
            Topic.objects.create(name="orders")
            raise InvalidArgument("no")

    with pytest.raises(InvalidArgument):
        change()

    assert not Topic.objects.exists()
    assert told() == [("topic.create", "refused", "invalid_argument")]


def test_a_change_of_nothing_leaves_no_entry() -> None:
    with recorded(by="ann", act="topic.change", kind="topic", name="orders") as entry:
        entry.forget()

    assert told() == []


def test_an_act_in_steps_is_written_down_before_and_its_outcome_after() -> None:
    seen: list[Any] = []

    with recorded(by="ann", act="lock.release", kind="lock", name="g~orders~0") as entry:
        seen += told()
        assert not connection.in_atomic_block
        entry.after = {"owner": None}

    assert seen == [("lock.release", "asked", "")]
    asked, outcome = AuditEntry.objects.order_by("number")
    assert (outcome.result, outcome.follows, outcome.after) == ("done", 1, {"owner": None})
    assert selectors.outcome_of(asked) == outcome


@pytest.mark.parametrize(
    ("error", "result", "code"),
    [(InvalidArgument("no"), "refused", "invalid_argument"),
     (Unreachable("away"), "failed", "unreachable"),
     (RuntimeError("a fault of ours"), "failed", "internal_error")],
)  # fmt: skip
def test_an_act_in_steps_that_raises_has_an_outcome_all_the_same(
    error: Exception, result: str, code: str
) -> None:
    with (
        pytest.raises(type(error)),
        recorded(by="ann", act="lock.release", kind="lock", name="g~orders~0"),
    ):
        raise error

    assert told() == [("lock.release", "asked", ""), ("lock.release", result, code)]


def test_an_act_in_steps_that_cannot_be_written_down_is_not_begun(away: list[str]) -> None:
    begun: list[str] = []

    with (
        pytest.raises(AuditUnavailable) as refusal,
        recorded(by="ann", act="lock.release", kind="lock", name="g~orders~0"),
    ):
        begun.append("release")

    assert (away, begun) == (["lock.release"], [])
    assert (refusal.value.kind.code, refusal.value.kind.retriable) == ("audit_unavailable", True)


def test_an_outcome_that_cannot_be_written_leaves_the_act_done_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    append = services.append
    calls: list[str] = []

    def fail_second(line: recording.Line) -> AuditEntry:
        calls.append(line.result)
        if len(calls) == 2:
            raise OperationalError("the database is away")
        return append(line)

    monkeypatch.setattr(services, "append", fail_second)

    with recorded(by="ann", act="lock.release", kind="lock", name="g~orders~0"):
        pass

    assert calls == ["asked", "done"]
    assert told() == [("lock.release", "asked", "")]
    assert "act_without_outcome" in caplog.text


def test_an_act_in_steps_must_not_be_in_a_transaction() -> None:
    with (
        pytest.raises(RuntimeError, match="durable"),
        transaction.atomic(),
        recorded(by="ann", act="lock.release", kind="lock", name="g~orders~0"),
    ):
        pass

    assert told() == []


def test_an_act_that_the_list_does_not_have_cannot_be_recorded() -> None:
    with pytest.raises(KeyError), recorded(by="ann", act="topic.eat", kind="topic", name="orders"):
        pass


def test_writers_at_the_same_time_make_one_chain() -> None:
    barrier = threading.Barrier(8)

    def act(writer: int) -> None:
        barrier.wait()
        try:
            for number in range(5):
                with recorded(
                    by=f"writer {writer}", act="topic.change", kind="topic", name=str(number)
                ) as entry:
                    entry.after = {"half": 0.5, "text": "ü\0", "list": [1, None, True]}
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(act, range(8)))

    walk, broken = selectors.walk()
    assert (walk.count, broken) == (40, None)
    assert AuditEntry.objects.values("by").distinct().count() == 8


@pytest.mark.parametrize("how", ["update", "delete", "save", "row", "truncate", "raw delete"])
def test_entries_are_never_changed_and_never_deleted(how: str) -> None:
    with recorded(by="ann", act="topic.change", kind="topic", name="orders"):
        pass
    entry = AuditEntry.objects.get()
    entry.by = "eve"
    changes: dict[str, Any] = {
        "update": lambda: AuditEntry.objects.update(by="eve"),
        "delete": lambda: AuditEntry.objects.all().delete(),
        "save": entry.save,
        "row": entry.delete,
        "truncate": lambda: connection.cursor().execute("TRUNCATE audit_auditentry"),
        "raw delete": lambda: connection.cursor().execute("DELETE FROM audit_auditentry"),
    }

    with pytest.raises(DatabaseError, match="only grows"):
        changes[how]()

    assert AuditEntry.objects.get().by == "ann"
