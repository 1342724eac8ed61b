"""What happened to assignments and locks, newest first, from rows."""

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
