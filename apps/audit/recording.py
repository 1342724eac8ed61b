"""Writing entries: one at a time in the whole product, each chained to the one before it.

Writers take turns by a lock of the database that ends with their transaction, so the chain has no
forks; were the lock not there, the unique `previous_hash` would refuse the second of two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from apps.audit import chain, values
from apps.audit.acts import act_of
from apps.audit.models import (
    ADDRESS_CHARACTERS_MAX,
    AGENT_CHARACTERS_MAX,
    CODE_CHARACTERS_MAX,
    DETAIL_CHARACTERS_MAX,
    NAME_CHARACTERS_MAX,
    REASON_CHARACTERS_MAX,
    AuditEntry,
    Result,
)
from apps.core.actors import CHARACTERS_MAX, UNNAMED
from apps.core.moments import moment
from apps.core.origins import Origin
from apps.engine.clock import SystemClock

# "mqweb audit" as a number: whoever else takes locks in this database takes another.
_TURN = 0x6D71_7765_6241


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What an entry is to say; the rest of it comes from the chain and the clock."""

    by: str
    act: str
    kind: str
    name: str
    result: Result
    origin: Origin
    request_id: str
    reason: str = ""
    before: Mapping[str, object] | None = None
    after: Mapping[str, object] | None = None
    code: str = ""
    detail: str = ""
    follows: int | None = None
    count: int = 1


def take_turn() -> None:
    """Have whoever else writes entries wait until the transaction that runs has ended."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_TURN])


def append(line: Line) -> AuditEntry:
    """Write an entry behind the newest one, in the transaction that runs, or in one of its own.

    Whoever else writes waits until that transaction ends: it ought to be the last thing in it.
    Raises KeyError for an act that the list does not have.
    """
    act_of(line.act)
    with transaction.atomic():
        take_turn()
        last = AuditEntry.objects.order_by("-number").only("number", "hash").first()
        entry = _entry(line)
        entry.number = 1 if last is None else last.number + 1
        entry.previous_hash = chain.BEGINNING if last is None else last.hash
        entry.hash = chain.digest(entry.previous_hash, entry)
        entry.save(force_insert=True)
    return entry


def _entry(line: Line) -> AuditEntry:
    return AuditEntry(
        at=moment(SystemClock().wall_ms()),
        by=values.text(line.by, CHARACTERS_MAX) or UNNAMED,
        door=line.origin.door.value,
        address=values.text(line.origin.address, ADDRESS_CHARACTERS_MAX),
        agent=values.text(line.origin.agent, AGENT_CHARACTERS_MAX),
        request_id=line.request_id,
        act=line.act,
        kind=line.kind,
        name=values.text(line.name, NAME_CHARACTERS_MAX),
        reason=values.text(line.reason, REASON_CHARACTERS_MAX),
        before=_plain(line.before),
        after=_plain(line.after),
        result=line.result,
        code=values.text(line.code, CODE_CHARACTERS_MAX),
        detail=values.text(line.detail, DETAIL_CHARACTERS_MAX),
        follows=line.follows,
        count=line.count,
    )


def _plain(found: Mapping[str, object] | None) -> Any:  # JSON, or nothing.
    return None if found is None else values.plain(found)
