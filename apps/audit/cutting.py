"""Cutting old entries off, in a way that the chain can tell of. Knows rows and the chain.

An entry that says what goes is written first, with the digest of the last that goes: the entry
behind that one is chained to it, so nobody can cut further than an entry says without a trace.
"""

from datetime import timedelta

from django.db import transaction

from apps.audit.chain import CUT, Head, said_of_cut
from apps.audit.models import AuditEntry, Result
from apps.audit.recording import Line, append, take_turn
from apps.clockwork.steps import Step
from apps.core import origins, requestids
from apps.core.actors import CLOCKWORK
from apps.core.moments import moment

ENTRIES_PER_STEP = 2_000


def cut(*, now_ms: int, keep_days: int, entries_max: int = ENTRIES_PER_STEP) -> Step:
    """Cut off the entries from the beginning that are older than `keep_days`; 0 keeps all.

    At most `entries_max`. An entry that is younger than the one behind it, as after a clock was set
    back, stays as long as that one is to.
    """
    if not keep_days:
        return Step()
    before = moment(now_ms) - timedelta(days=keep_days)
    with transaction.atomic():
        take_turn()
        rows = AuditEntry.objects.order_by("number").values_list("number", "hash", "at")
        old: list[Head] = []
        for number, digest, at in rows[:entries_max]:
            if at >= before:
                break
            old.append(Head(number=number, hash=digest))
        if not old:
            return Step()
        append(
            Line(
                by=CLOCKWORK,
                act=CUT,
                kind="audit",
                name="entries",
                result=Result.DONE,
                origin=origins.current.get(),
                request_id=requestids.current.get(),
                reason=f"older than {keep_days} days",
                after={**said_of_cut(old[-1]), "first": old[0].number, "count": len(old)},
            )
        )
        # In the order of numbers a trigger allows what an entry covers, and nothing else.
        AuditEntry.objects.filter(number__lte=old[-1].number).delete()
    return Step(done=len(old), more=len(old) == entries_max)
