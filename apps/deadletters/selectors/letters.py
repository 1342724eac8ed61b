"""Dead letters as rows have them: one, counts by group, what they died of. Asks no engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Max, Min, Q
from django.utils import timezone

from apps.core.exceptions import ProblemError
from apps.core.phrases import sentence
from apps.deadletters.models import DeadLetter, State

_NUMBER_MAX = 2**63 - 1
# Lines of a breakdown; the rest is left out.
LINES_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLetters:
    """How many dead letters a group has, by state, and of those that wait how old they are."""

    group: str
    waiting: int
    resending: int
    resent: int
    discarded: int
    gone: int
    died_today: int
    oldest_at: datetime | None
    newest_at: datetime | None


def letter(group: str, number: int) -> DeadLetter:
    """Return one letter of a group; refuse any other number as `not_found`."""
    found = None
    if number <= _NUMBER_MAX:
        found = DeadLetter.objects.select_related("job").filter(group=group, pk=number).first()
    if found is None:
        raise ProblemError(
            "not_found",
            sentence(
                "group %(group)s has no dead letter %(number)s", group=repr(group), number=number
            ),
        )
    return found


def groups_with_letters() -> list[GroupLetters]:
    """Return the groups that have dead letters: those with most that wait first."""
    waits = Q(state=State.WAITING)
    day = timezone.now() - timedelta(days=1)
    rows = (
        DeadLetter.objects.order_by()
        .values("group")
        .annotate(
            waiting=Count("pk", filter=waits),
            resending=Count("pk", filter=Q(state=State.RESENDING)),
            resent=Count("pk", filter=Q(state=State.RESENT)),
            discarded=Count("pk", filter=Q(state=State.DISCARDED)),
            gone=Count("pk", filter=Q(state=State.GONE)),
            died_today=Count("pk", filter=Q(dead_at__gte=day)),
            oldest_at=Min("dead_at", filter=waits),
            newest_at=Max("dead_at", filter=waits),
        )
        .order_by("-waiting", "group")
    )
    return [GroupLetters(**row) for row in rows]


def origins(group: str) -> Sequence[tuple[str, int]]:
    """Return the topics that most of a group's waiting letters come from, with how many."""
    return _most(group, "origin_topic")


def reasons(group: str) -> Sequence[tuple[str, int]]:
    """Return what most of a group's waiting letters died of, with how many."""
    return _most(group, "reason")


def _most(group: str, column: str) -> Sequence[tuple[str, int]]:
    waiting = DeadLetter.objects.filter(group=group, state=State.WAITING).order_by()
    counted = waiting.values_list(column).annotate(count=Count("pk"))
    return list(counted.order_by("-count", column)[:LINES_MAX])
