"""What was lost, repeated and out of order, added up over the runs of a scope."""

from typing import Any

from django.db.models import Count, Max, Q, Sum

from apps.pipelines.models.results.integrity import (
    Disorder,
    DuplicateTotal,
    Loss,
    LossTotal,
    QualityResult,
)
from apps.pipelines.selectors.results import Scope

Row = dict[str, Any]


def losses(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return each queue with what was looked at and what is wrong, the worst first."""
    found = (
        scope.rows(LossTotal)
        .order_by()
        .values("topic", "queue")
        .annotate(
            messages=Sum("messages"),
            numbered=Sum("numbered"),
            # The same ones in each window, mostly: their number over all is not known.
            producers=Max("producers"),
            gaps=Sum("gaps"),
            missing=Sum("missing"),
            recovered=Sum("recovered"),
            stored_twice=Sum("stored_twice"),
            consumed_twice=Sum("consumed_twice"),
        )
        .order_by("-missing", "-stored_twice", "-consumed_twice", "topic", "queue")
    )
    return list(found[:lines_max])


def loss_sums(scope: Scope) -> Row:
    """Return the sums over all queues; None where no queue was looked at."""
    return scope.rows(LossTotal).aggregate(
        messages=Sum("messages"),
        numbered=Sum("numbered"),
        gaps=Sum("gaps"),
        missing=Sum("missing"),
        recovered=Sum("recovered"),
        stored_twice=Sum("stored_twice"),
        consumed_twice=Sum("consumed_twice"),
    )


def gaps(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return runs of missing numbers, the newest first."""
    return list(scope.rows(Loss).order_by("-found_at", "-pk").values()[:lines_max])


def duplicates(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return duplicates by topic, group, kind and cause, the most first."""
    found = (
        scope.rows(DuplicateTotal)
        .order_by()
        .values("topic", "group", "kind", "cause")
        .annotate(messages=Sum("messages"), extra=Sum("extra"))
        .order_by("-extra", "topic", "group", "kind", "cause")
    )
    return list(found[:lines_max])


def duplicate_causes(scope: Scope) -> list[Row]:
    """Return copies beyond the first by cause and kind."""
    found = scope.rows(DuplicateTotal).order_by().values("cause", "kind")
    return list(found.annotate(extra=Sum("extra")).order_by("cause", "kind"))


def disorder_kinds(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return how often order did not hold by topic, group and kind, the most first."""
    found = (
        scope.rows(Disorder)
        .order_by()
        .values("topic", "group", "kind")
        .annotate(times=Sum("times"), kept=Count("pk"), last_at=Max("at"))
        .order_by("-times", "topic", "group", "kind")
    )
    return list(found[:lines_max])


def disorders(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return places where order did not hold, the newest first."""
    return list(scope.rows(Disorder).order_by("-at", "-pk").values()[:lines_max])


def rules(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return rules with how often they were looked at and broken, the most broken first."""
    broken = Count("pk", filter=Q(is_kept=False))
    found = (
        scope.rows(QualityResult)
        .order_by()
        .values("table_name", "rule", "topic", "severity")
        .annotate(looked=Count("pk"), broken=broken, worst=Max("value"), limit=Max("limit"))
        .order_by("-broken", "severity", "table_name", "rule", "topic")
    )
    return list(found[:lines_max])
