"""Cutting old entries off: the chain tells what went, and nothing goes that it does not tell."""

import json
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.db import DatabaseError, connection

from apps.audit import heads, selectors
from apps.audit.chain import Head
from apps.audit.cutting import cut
from apps.audit.models import AuditEntry
from apps.audit.services import cut_old, recorded
from apps.engine.clock import SystemClock

pytestmark = pytest.mark.django_db(transaction=True)

DAY_MS = 24 * 60 * 60 * 1_000
NOW_MS = 1_800_000_000_000


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time be that of the tests."""
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _: NOW_MS)


def act(count: int, *, age_days: int) -> None:
    """Keep so many acts that are this old at the time of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemClock, "wall_ms", lambda _: NOW_MS - age_days * DAY_MS)
        for number in range(count):
            with recorded(by="ann", act="topic.change", kind="topic", name=str(number)):
                pass


def numbers() -> list[int]:
    return list(AuditEntry.objects.order_by("number").values_list("number", flat=True))


def verified() -> tuple[int, str]:
    """Return after which number the chain begins, and what is wrong with it."""
    walk, broken = selectors.walk()
    return walk.begin.number, "" if broken is None else broken.detail


def tamper(statement: str) -> None:
    """Do what the owner of the database can do."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_auditentry DISABLE TRIGGER USER")
        cursor.execute(statement)
        cursor.execute("ALTER TABLE audit_auditentry ENABLE TRIGGER USER")


def test_what_is_old_goes_and_an_entry_says_what_went() -> None:
    act(5, age_days=40)
    last = AuditEntry.objects.get(number=5)
    act(2, age_days=3)

    step = cut(now_ms=NOW_MS, keep_days=30)

    assert (step.done, step.more) == (5, False)
    assert numbers() == [6, 7, 8]
    said = AuditEntry.objects.get(number=8)
    assert (said.act, said.by) == ("audit.cut", "clockwork")
    assert said.after == {"first": 1, "last": 5, "count": 5, "hash": last.hash}
    assert verified() == (5, "")


def test_by_default_everything_is_kept() -> None:
    act(3, age_days=4_000)

    assert cut_old(now_ms=NOW_MS).done == 0
    assert numbers() == [1, 2, 3]


def test_the_setting_says_for_how_long(settings: Any) -> None:
    settings.MQWEB = replace(django_settings.MQWEB, audit_keep_days=30)
    act(3, age_days=31)

    assert cut_old(now_ms=NOW_MS).done == 3


def test_many_go_in_several_steps_and_the_last_cut_counts() -> None:
    act(7, age_days=40)

    steps = [cut(now_ms=NOW_MS, keep_days=30, entries_max=3) for _ in range(4)]

    assert [(step.done, step.more) for step in steps] == [
        (3, True), (3, True), (1, False), (0, False),
    ]  # fmt: skip
    assert numbers() == [8, 9, 10]
    assert verified() == (7, "")


def test_old_cuts_go_with_what_is_old() -> None:
    act(3, age_days=40)
    cut(now_ms=NOW_MS, keep_days=30)
    act(2, age_days=0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemClock, "wall_ms", lambda _: NOW_MS + 50 * DAY_MS)
        step = cut(now_ms=NOW_MS + 50 * DAY_MS, keep_days=30)

    assert step.done == 3
    assert numbers() == [7]
    assert verified() == (6, "")


def test_an_entry_behind_a_younger_one_stays() -> None:
    act(1, age_days=3)
    act(2, age_days=40)

    assert cut(now_ms=NOW_MS, keep_days=30).done == 0


def test_nobody_can_cut_further_than_an_entry_says() -> None:
    act(5, age_days=40)
    act(3, age_days=3)
    cut(now_ms=NOW_MS, keep_days=30)

    with pytest.raises(DatabaseError, match="only grows"):
        AuditEntry.objects.filter(number=6).delete()

    tamper("DELETE FROM audit_auditentry WHERE number = 6")
    assert verified() == (6, "missing: entries 1 to 6, and none says they were cut")


def test_a_cut_that_nobody_told_of_is_found() -> None:
    act(5, age_days=1)

    tamper("DELETE FROM audit_auditentry WHERE number < 3")

    assert verified() == (2, "missing: entries 1 to 2, and none says they were cut")


def test_a_cut_that_tells_of_another_entry_proves_nothing() -> None:
    act(5, age_days=40)
    act(1, age_days=1)
    cut(now_ms=NOW_MS, keep_days=30)

    tamper(
        "UPDATE audit_auditentry SET after = jsonb_set(after, '{last}', '4')"
        " WHERE act = 'audit.cut'"
    )

    assert "was changed" in verified()[1]


def test_heads_of_what_was_cut_are_passed_over_and_later_ones_compared() -> None:
    act(3, age_days=40)
    gone, last = AuditEntry.objects.get(number=1), AuditEntry.objects.get(number=3)
    act(1, age_days=1)
    cut(now_ms=NOW_MS, keep_days=30)

    good = [Head(number=1, hash=gone.hash), Head(number=3, hash=last.hash)]
    assert selectors.walk(good)[1] is None
    for number in (3, 4):
        broken = selectors.walk([Head(number=number, hash="f" * 64)])[1]
        assert broken is not None
        assert "rewritten" in broken.detail


def test_the_command_says_up_to_where_the_log_was_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (django_settings.MQWEB.data / heads.FILE).unlink(missing_ok=True)
    act(3, age_days=40)
    act(1, age_days=1)
    cut(now_ms=NOW_MS, keep_days=30)

    call_command("verifyaudit", "--json")
    call_command("verifyaudit")

    found, said = capsys.readouterr().out.splitlines()
    assert json.loads(found)["begins_after"] == 3
    assert said.startswith("2 entries, cut up to 3, unbroken")
