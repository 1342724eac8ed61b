"""What happened to assignments and locks, newest first, from rows."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import QuerySet

from apps.groups.models import LockTransition, Rebalance


def rebalances(group: str, *, before: int | None, lines_max: int) -> list[Rebalance]:
    """Return a group's new assignments whose rows come before `before`, newest first."""
    rows = Rebalance.objects.filter(group=group)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return list(rows.order_by("-pk")[:lines_max])


def transitions(
    group: str, topic: str, queue: int, *, before: int | None, lines_max: int
) -> list[LockTransition]:
    """Return what happened to one lock, rows before `before`, newest first."""
    rows = LockTransition.objects.filter(group=group, topic=topic, queue=queue)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return list(rows.order_by("-pk")[:lines_max])


def group_transitions(
    group: str, *, since: datetime, lines_max: int, place: tuple[str, int] | None = None
) -> Sequence[LockTransition]:
    """Return what happened to a group's locks since a moment, or to one, oldest first.

    With the last line before it of each lock, so that it is known who had them at the begin. Above
    `lines_max` the oldest are left out.
    """
    rows: QuerySet[LockTransition] = LockTransition.objects.filter(group=group)
    if place is not None:
        rows = rows.filter(topic=place[0], queue=place[1])
    before = rows.filter(at__lt=since).order_by("topic", "queue", "-pk").distinct("topic", "queue")
    after = rows.filter(at__gte=since).order_by("-pk")
    return [*before[:lines_max], *reversed(after[:lines_max])]
