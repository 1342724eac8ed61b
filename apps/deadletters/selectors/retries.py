"""What is to come again to a group and what never will: counts by failures, dead letters.

The first is live from the engine, in a bounded look; the second is rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Min
from django.utils import timezone

from apps.bridge import engine as bridge
from apps.deadletters.models import DeadLetter, State
from apps.engine.api import EngineControl, Later
from apps.engine.failuretypes import GroupRetries, RetryCount
from apps.engine.types import GroupSpec

# A group may allow many more; then only what there is is told.
ATTEMPTS_TOLD_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Counts by number of failures: each from 1 to the last there may be, and what else there is.

    `failures_max` is how often a message may fail and come again, None without limit. Where the
    look was not complete there may be more of each.
    """

    counts: Sequence[RetryCount]
    failures_max: int | None
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Dead letters of a group that wait for somebody: how many, and since when the oldest.

    `died_today` counts those of the last 24 hours, whatever became of them.
    """

    group: str
    waiting: int
    oldest_at: datetime | None
    died_today: int


def retries(group: str) -> Retries:
    """Return what is to come again to a group. Raises InvalidName, and Busy as `bridge.call`."""
    found = bridge.call(lambda engine: _asked(engine, group))
    specs = bridge.call(lambda engine: engine.catalog.groups)
    most = (specs.get(group) or GroupSpec(name=group)).failures_max
    known = {one.failures: one for one in found.counts}
    told = range(1, most + 1) if most is not None and most <= ATTEMPTS_TOLD_MAX else range(0)
    return Retries(
        counts=[
            known.get(number) or RetryCount(failures=number) for number in sorted({*known, *told})
        ],
        failures_max=most,
        is_complete=found.is_complete,
    )


def waiting_letters(group: str | None = None) -> list[Waiting]:
    """Return the groups, or the one, with letters that wait or died today: most waiting first."""
    rows = DeadLetter.objects.order_by()
    if group is not None:
        rows = rows.filter(group=group)
    waiting = {
        name: (count, oldest_at)
        for name, count, oldest_at in rows.filter(state=State.WAITING)
        .values_list("group")
        .annotate(count=Count("pk"), oldest_at=Min("dead_at"))
    }
    day = timezone.now() - timedelta(days=1)
    died = dict(rows.filter(dead_at__gte=day).values_list("group").annotate(count=Count("pk")))
    found = [
        Waiting(
            group=name,
            waiting=waiting.get(name, (0, None))[0],
            oldest_at=waiting.get(name, (0, None))[1],
            died_today=died.get(name, 0),
        )
        for name in {*waiting, *died}
    ]
    return sorted(found, key=lambda one: (-one.waiting, -one.died_today, one.group))


def _asked(engine: EngineControl, group: str) -> Later[GroupRetries]:
    return engine.group_retries(group)
