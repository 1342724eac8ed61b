"""How entries are chained: canonical bytes, digests, the walk that looks for a break. No query.

docs/FORMAT.md, section on the audit log, says the same for those who verify by other means.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from apps.audit.models import HASH_CHARACTERS, AuditEntry
from apps.core.moments import ms_of

FORMAT_VERSION = 1
# What the first entry is chained to.
BEGINNING = "0" * HASH_CHARACTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest entry at some time: all before it is fixed by its digest."""

    number: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """The first entry at which something is not as it was written."""

    number: int
    detail: str


def canonical(entry: AuditEntry) -> bytes:
    """Return the bytes that an entry is known by: JSON in UTF-8, keys sorted, no spaces.

    Everything is in them but the two digests; the time is milliseconds since 1970.
    """
    fields = {
        "version": FORMAT_VERSION,
        "number": entry.number,
        "at_ms": ms_of(entry.at),
        "by": entry.by,
        "door": str(entry.door),
        "address": entry.address,
        "agent": entry.agent,
        "request_id": entry.request_id,
        "act": entry.act,
        "kind": entry.kind,
        "name": entry.name,
        "reason": entry.reason,
        "before": entry.before,
        "after": entry.after,
        "result": str(entry.result),
        "code": entry.code,
        "detail": entry.detail,
        "follows": entry.follows,
        "count": entry.count,
    }
    return json.dumps(
        fields, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


def digest(previous_hash: str, entry: AuditEntry) -> str:
    """Return the hash of an entry behind another."""
    return hashlib.sha256(previous_hash.encode("ascii") + canonical(entry)).hexdigest()


CUT = "audit.cut"
"""The act of an entry that says up to which other one the log was cut, and the digest of that."""


class Walk:
    """Follows the chain from its beginning, entry by entry, in order."""

    def __init__(self, heads: Iterable[Head] = (), *, begin: Head | None = None) -> None:
        """Begin; `heads` were kept outside the table, and must be met on the way.

        `begin` is the last entry that was cut off: it is not there, but one of those behind it must
        say that it was. Heads before it can be met no more.
        """
        self.count = 0
        self.begin = self.head = begin or Head(number=0, hash=BEGINNING)
        self._is_cut_said = begin is None
        self._heads: dict[int, set[str]] = {}
        self._begin_broken: Break | None = None
        for head in heads:
            if head.number > self.begin.number:
                self._heads.setdefault(head.number, set()).add(head.hash)
            elif head.number == self.begin.number and head.hash != self.begin.hash:
                self._begin_broken = Break(
                    number=self.begin.number + 1,
                    detail="is not chained to the entry that was kept outside: it was rewritten",
                )

    def step(self, entry: AuditEntry) -> Break | None:
        """Go on to an entry; return what is wrong with it, None where nothing is."""
        if self._begin_broken is not None:
            return self._begin_broken
        wanted = self.head.number + 1
        if entry.number != wanted:
            gap = str(wanted) if entry.number == wanted + 1 else f"{wanted} to {entry.number - 1}"
            return Break(number=wanted, detail=f"missing: entries {gap}")
        if entry.previous_hash != self.head.hash:
            return Break(number=wanted, detail="is not chained to the entry before it")
        if entry.hash != digest(entry.previous_hash, entry):
            return Break(number=wanted, detail="was changed: its digest is not of what it says")
        kept = self._heads.pop(entry.number, None)
        if kept is not None and kept != {entry.hash}:
            return Break(
                number=wanted, detail="is not the one that was kept outside: it was rewritten"
            )
        self.head = Head(number=entry.number, hash=entry.hash)
        self.count += 1
        if entry.act == CUT and said_of_cut(self.begin).items() <= (entry.after or {}).items():
            self._is_cut_said = True
        return None

    def end(self) -> Break | None:
        """Say what is missing before the first entry, or behind the last, where a kept head tells.

        What was cut off by the product is told by an entry behind it.
        """
        if not self._is_cut_said:
            return Break(
                number=1,
                detail=f"missing: entries 1 to {self.begin.number}, and none says they were cut",
            )
        if not self._heads:
            return None
        return Break(
            number=self.head.number + 1,
            detail=f"missing: the end; there was an entry {max(self._heads)}",
        )


def said_of_cut(last: Head) -> dict[str, object]:
    """Return what the entry of a cut keeps of the last one that went: the next is chained to it."""
    return {"last": last.number, "hash": last.hash}
