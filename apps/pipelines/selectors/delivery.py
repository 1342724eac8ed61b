"""How punctual deliveries were, how often they failed and who had which queue, over a scope."""

from typing import Any

from django.db.models import Count, F, Max, Q, Sum

from apps.pipelines.models import LakeFile
from apps.pipelines.models.results.delivery import (
    DeadCause,
    DelayStat,
    LatenessBar,
    RebalanceHour,
    RetryStat,
)
from apps.pipelines.selectors.results import Scope

Row = dict[str, Any]


def lateness(scope: Scope) -> list[Row]:
    """Return the bars of how late delayed messages were, the least late first."""
    found = (
        scope.rows(LatenessBar)
        .order_by()
        .values("from_ms", "to_ms")
        .annotate(messages=Sum("messages"))
        .order_by("from_ms", "to_ms")
    )
    return list(found)


def delays(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return each topic and level with the percentiles of its worst window."""
    found = (
        scope.rows(DelayStat)
        .order_by()
        .values("topic", "delay_level")
        .annotate(
            messages=Sum("messages"),
            early=Sum("early"),
            cancelled=Sum("cancelled"),
            stored_p99_ms=Max("stored_p99_ms"),
            p50_ms=Max("p50_ms"),
            p99_ms=Max("p99_ms"),
            max_ms=Max("max_ms"),
        )
        .order_by(F("max_ms").desc(nulls_last=True), "topic", "delay_level")
    )
    return list(found[:lines_max])


def attempts(scope: Scope) -> list[Row]:
    """Return how many messages took so many attempts and ended so."""
    found = scope.rows(RetryStat).order_by().values("attempts", "final")
    return list(found.annotate(messages=Sum("messages")).order_by("attempts", "final"))


def retries(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return each topic and group with how its messages ended, those with most dead first."""
    found = (
        scope.rows(RetryStat)
        .order_by()
        .values("topic", "group")
        .annotate(
            at_once=Sum("messages", filter=Q(final="done", attempts__lte=1)),
            done=Sum("messages", filter=Q(final="done", attempts__gt=1)),
            dead=Sum("messages", filter=Q(final="dead")),
            open=Sum("messages", filter=Q(final="open")),
            attempts=Max("attempts"),
            p99_s=Max("p99_s"),
        )
        .order_by("topic", "group")
    )
    ranked = sorted(found, key=lambda row: (-(row["dead"] or 0), -(row["done"] or 0)))
    return ranked[:lines_max]


def causes(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return why messages failed or died, the most failures first."""
    found = (
        scope.rows(DeadCause)
        .order_by()
        .values("topic", "group", "error_class")
        .annotate(
            failures=Sum("failures"),
            messages=Sum("messages"),
            dead=Sum("dead"),
            poison=Count("pk", filter=Q(is_poison=True)),
        )
        .order_by("-failures", "topic", "group", "error_class")
    )
    return list(found[:lines_max])


def cause_sums(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return the sums of each cause over all topics and groups, the most messages first."""
    found = scope.rows(DeadCause).order_by().values("error_class")
    summed = found.annotate(messages=Sum("messages"), dead=Sum("dead"))
    return list(summed.order_by("-messages", "error_class")[:lines_max])


def rebalance_hours(scope: Scope) -> list[Row]:
    """Return each hour with its rebalances over all groups, by time."""
    found = (
        scope.rows(RebalanceHour)
        .order_by()
        .values("hour")
        .annotate(
            in_storms=Sum("rebalances", filter=Q(is_storm=True)),
            rebalances=Sum("rebalances"),
        )
        .order_by("hour")
    )
    return list(found)


def rebalances(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return hours of groups, storms first and then the newest."""
    found = scope.rows(RebalanceHour).order_by("-is_storm", "-hour", "group").values()
    return list(found[:lines_max])


def lake_days(tables: tuple[str, ...], *, days_max: int) -> list[Row]:
    """Return rows, bytes and files of tables by day, the newest days."""
    found = (
        LakeFile.objects.filter(table__in=tables, retired_at=None, day__isnull=False)
        .order_by()
        .values("day")
        .annotate(rows_count=Sum("rows"), size_bytes=Sum("size_bytes"), files=Count("pk"))
        .order_by("-day")
    )
    return [dict(row) for row in found[:days_max]][::-1]


def lake_topics(tables: tuple[str, ...], *, lines_max: int) -> list[Row]:
    """Return what the lake has of each table and topic, the largest first."""
    found = (
        LakeFile.objects.filter(table__in=tables, retired_at=None)
        .order_by()
        .values("table", "topic")
        .annotate(
            rows_count=Sum("rows"),
            size_bytes=Sum("size_bytes"),
            files=Count("pk"),
            last_at=Max("last_at"),
        )
        .order_by("-size_bytes", "table", "topic")
    )
    return [dict(row) for row in found[:lines_max]]
