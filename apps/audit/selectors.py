"""Entries as they are looked for: by who, act, object, result, time; and the walk of the chain."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from apps.audit.chain import Break, Head, Walk
from apps.audit.models import AuditEntry, Result
from apps.core.exceptions import ProblemError
from apps.core.origins import Door
from apps.core.phrases import sentence

_ENTRIES_PER_READ = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Conditions that all hold; None asks for nothing.

    `by` is a part of the name, in any case; `act` is an act, or the object before its dot. `to` is
    the first moment that is not meant any more.
    """

    by: str | None = None
    act: str | None = None
    kind: str | None = None
    name: str | None = None
    result: Result | None = None
    door: Door | None = None
    first_at: datetime | None = None
    end_at: datetime | None = None

    def entries(self) -> QuerySet[AuditEntry]:
        """Return the entries that are meant, the newest first."""
        found = AuditEntry.objects.all()
        if self.by is not None:
            found = found.filter(by__icontains=self.by)
        if self.act is not None:
            found = found.filter(Q(act=self.act) | Q(act__startswith=f"{self.act}."))
        for column in ("kind", "name", "result", "door"):
            value = getattr(self, column)
            if value is not None:
                found = found.filter(**{column: value})
        if self.first_at is not None:
            found = found.filter(at__gte=self.first_at)
        if self.end_at is not None:
            found = found.filter(at__lt=self.end_at)
        return found.order_by("-number")


def page(wanted: EntryFilter, *, before: int | None, entries_max: int) -> Sequence[AuditEntry]:
    """Return at most `entries_max` entries below the number `before`, the newest first."""
    found = wanted.entries()
    return list((found if before is None else found.filter(number__lt=before))[:entries_max])


def outcomes(entries: Iterable[AuditEntry]) -> dict[int, AuditEntry]:
    """Return the outcomes of those among `entries` that were asked, by the number of these."""
    asked = [entry.number for entry in entries if entry.result == Result.ASKED]
    if not asked:
        return {}
    return {
        entry.follows: entry
        for entry in AuditEntry.objects.filter(follows__in=asked)
        if entry.follows is not None
    }


def entry(number: int) -> AuditEntry:
    """Return one entry; raise `not_found` for a number that none has."""
    found = AuditEntry.objects.filter(number=number).first()
    if found is None:
        raise ProblemError(
            "not_found", sentence("there is no audit entry %(number)s", number=number)
        )
    return found


def outcome_of(asked: AuditEntry) -> AuditEntry | None:
    """Return what came of an act that was asked; None where nothing is known of it."""
    return outcomes([asked]).get(asked.number)


def walk(heads: Iterable[Head] = ()) -> tuple[Walk, Break | None]:
    """Follow the whole chain, and return where it breaks first; None where it does not.

    Reads in portions, by number; what is written meanwhile is followed as well, and where the log
    is cut meanwhile the walk begins anew.
    """
    kept = tuple(heads)
    while True:
        begin = _begin()
        walk, broken = _walked(kept, begin)
        if broken is None or begin == _begin():
            return walk, broken


def _begin() -> Head | None:
    """Return the last entry that was cut off, as the first that is left knows it; or None."""
    first = AuditEntry.objects.order_by("number").values_list("number", "previous_hash").first()
    if first is None or first[0] == 1:
        return None
    return Head(number=first[0] - 1, hash=first[1])


def _walked(heads: Iterable[Head], begin: Head | None) -> tuple[Walk, Break | None]:
    walk = Walk(heads, begin=begin)
    while True:
        found = AuditEntry.objects.filter(number__gt=walk.head.number).order_by("number")
        portion = list(found[:_ENTRIES_PER_READ])
        for one in portion:
            if (broken := walk.step(one)) is not None:
                return walk, broken
        if len(portion) < _ENTRIES_PER_READ:
            return walk, walk.end()
