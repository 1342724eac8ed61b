"""What is kept outside the database, and the command that compares."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from apps.audit import heads
from apps.audit.heads import HeadKeeper
from apps.audit.models import AuditEntry
from apps.audit.services import recorded
from apps.bridge.exits import Exit

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def path() -> Any:
    """Return where the product keeps the head; nothing is there before and after."""
    found: Path = settings.MQWEB.data / heads.FILE
    found.unlink(missing_ok=True)
    yield found
    found.unlink(missing_ok=True)


def act(count: int = 1) -> None:
    for number in range(count):
        with recorded(by="ann", act="topic.change", kind="topic", name=str(number)):
            pass


def tamper(statement: str) -> None:
    """Do what the owner of the database can do."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_auditentry DISABLE TRIGGER USER")
        cursor.execute(statement)
        cursor.execute("ALTER TABLE audit_auditentry ENABLE TRIGGER USER")


def verified(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, Any]]:
    """Run the command; return its exit code and what it said."""
    code = 0
    try:
        call_command("verifyaudit", "--json", *flags)
    except SystemExit as end:
        code = int(end.code or 0)
    return code, json.loads(capsys.readouterr().out)


def test_an_unbroken_chain_is_said_to_be_one(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    act(3)
    assert HeadKeeper(path).keep()
    act(2)

    code, said = verified(capsys)

    assert (code, said["entries"], said["kept_heads"], said["broken_at"]) == (0, 5, [3], None)


def test_the_first_broken_place_is_said_and_the_code_is_its_own(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    act(5)
    tamper("UPDATE audit_auditentry SET by = 'eve' WHERE number IN (2, 4)")

    code, said = verified(capsys)

    assert (code, said["broken_at"]) == (Exit.DAMAGED_AUDIT, 2)
    assert "changed" in said["detail"]


def test_an_end_that_was_cut_off_is_noticed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    act(5)
    HeadKeeper(path).keep()
    tamper("DELETE FROM audit_auditentry WHERE number > 3")

    with_file = verified(capsys)
    without = verified(capsys, "--without-file")

    assert (with_file[0], with_file[1]["broken_at"]) == (Exit.DAMAGED_AUDIT, 4)
    assert without[0] == Exit.OK


def test_a_head_out_of_a_log_is_compared_as_well(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    act(2)
    newest = AuditEntry.objects.get(number=2)

    good = verified(capsys, "--head", f"2:{newest.hash}")
    bad = verified(capsys, "--head", f"2:{'0' * 64}")

    assert (good[0], bad[0], bad[1]["broken_at"]) == (Exit.OK, Exit.DAMAGED_AUDIT, 2)


def test_what_is_no_head_is_refused(path: Path) -> None:
    path.write_text("{}")

    with pytest.raises(CommandError) as refusal:
        call_command("verifyaudit")

    assert refusal.value.returncode == Exit.REFUSED


def test_a_head_is_written_when_there_is_a_new_entry_and_logged(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    keeper = HeadKeeper(path)
    empty = keeper.keep()
    act()

    written = [keeper.keep(), keeper.keep()]

    assert (empty, written) == (False, [True, False])
    assert heads.read(path) == heads.head_of(f"1:{AuditEntry.objects.get().hash}")
    assert [record.message for record in caplog.records].count("audit_head") == 1
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_head_that_the_table_lacks_is_kept_and_logged_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    act(3)
    HeadKeeper(path).keep()
    kept = path.read_text()
    tamper("DELETE FROM audit_auditentry WHERE number > 1")
    keeper = HeadKeeper(path)
    caplog.clear()

    keeper.keep()
    act(5)
    keeper.keep()

    assert path.read_text() == kept
    assert [record.message for record in caplog.records] == ["audit_head_missing"]
