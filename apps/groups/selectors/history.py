"""What happened to assignments and locks, newest first, from rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count, F, Func, Max, QuerySet, Sum
from django.db.models.fields import DateTimeField

from apps.groups.models import LockRefusal, LockTransition, Rebalance


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


def refusals(
    group: str, topic: str, queue: int, *, before: int | None, lines_max: int
) -> list[LockRefusal]:
    """Return how often a lock was refused to whom, minute by minute, newest rows first."""
    rows = LockRefusal.objects.filter(group=group, topic=topic, queue=queue)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return list(rows.order_by("-pk")[:lines_max])


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedSpell:
    """Refusals of one queue's lock on behalf of one owner, gathered over `length`.

    `client_id` is one of those that were refused; `clients` counts them, minutes with too many
    to tell apart as one.
    """

    topic: str
    queue: int
    owner: str
    at: datetime
    length: timedelta
    count: int
    clients: int
    client_id: str


def group_refusals(
    group: str,
    *,
    since: datetime,
    length: timedelta,
    lines_max: int,
    place: tuple[str, int] | None = None,
) -> list[RefusedSpell]:
    """Return refusals of a group's locks since a moment, or of one, gathered, the newest first.

    One for each owner and spell of the `length` in which there was any; whole minutes.
    """
    rows: QuerySet[LockRefusal] = LockRefusal.objects.filter(group=group, at__gte=since)
    if place is not None:
        rows = rows.filter(topic=place[0], queue=place[1])
    begin = datetime(2000, 1, 1, tzinfo=UTC)
    spell = Func(length, F("at"), begin, function="date_bin", output_field=DateTimeField())
    found = (
        rows.order_by()
        .annotate(spell=spell)
        .values("topic", "queue", "owner", "spell")
        .annotate(
            total=Sum("count"), clients=Count("client_id", distinct=True), one=Max("client_id")
        )
        .order_by("-spell", "topic", "queue", "owner")
    )
    return [
        RefusedSpell(
            topic=row["topic"],
            queue=row["queue"],
            owner=row["owner"],
            at=row["spell"],
            length=length,
            count=row["total"],
            clients=row["clients"],
            client_id=row["one"],
        )
        for row in found[:lines_max]
    ]
