"""Where load is, how fast it comes and how far groups are behind, over the runs of a scope."""

from datetime import datetime
from typing import Any

from django.db.models import F, Max, Q, Sum
from django.db.models.functions import Trunc

from apps.pipelines.models.results.load import BacklogPoint, HotKey, QueueShare, RateMinute
from apps.pipelines.selectors.results import Scope

Row = dict[str, Any]


def shares(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return the messages and bytes of each queue; how uneven, in its worst window."""
    found = (
        scope.rows(QueueShare)
        .order_by()
        .values("topic", "queue")
        .annotate(
            messages=Sum("messages"),
            bytes=Sum("bytes"),
            gini=Max("gini"),
            max_to_mean=Max("max_to_mean"),
        )
        .order_by("topic", "queue")
    )
    return list(found[:lines_max])


def rehashed_shares(scope: Scope) -> dict[tuple[str, int], float]:
    """Return the share of each queue with a good hash, in the newest window that knows it."""
    found = (
        scope.rows(QueueShare)
        .filter(share_if_rehashed__isnull=False)
        .order_by("topic", "queue", "-run__window_end")
        .distinct("topic", "queue")
        .values_list("topic", "queue", "share_if_rehashed")
    )
    return {(topic, queue): share for topic, queue, share in found}


def hot_keys(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return the keys that most messages had, as far as they were among the hottest of a window."""
    found = (
        scope.rows(HotKey)
        .order_by()
        .values("topic", "key_kind", "key")
        .annotate(
            messages=Sum("messages"),
            bytes=Sum("bytes"),
            share=Max("share"),
            queues=Max("queues"),
        )
        .order_by("-messages", "topic", "key_kind", "key")
    )
    return list(found[:lines_max])


def rates(scope: Scope, *, bucket: str) -> list[Row]:
    """Return what was sent, worked on and failed in each minute, hour or day, by time."""
    sent = Q(group="")
    found = (
        scope.rows(RateMinute)
        .order_by()
        .annotate(at=Trunc("minute", bucket))
        .values("at")
        .annotate(
            sent=Sum("messages", filter=sent),
            worked=Sum("messages", filter=~sent),
            failures=Sum("failures"),
            sent_bytes=Sum("bytes", filter=sent),
        )
        .order_by("at")
    )
    return list(found)


def rate_sums(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return the sums of each topic and of each group in it, the busiest first."""
    found = (
        scope.rows(RateMinute)
        .order_by()
        .values("topic", "group")
        .annotate(
            # Minutes weigh as much as they had messages.
            worked_ms=Sum(F("mean_ms") * F("messages")),
            busiest=Max("messages"),
            messages=Sum("messages"),
            failures=Sum("failures"),
            bytes=Sum("bytes"),
        )
        .order_by("-messages", "topic", "group")
    )
    return list(found[:lines_max])


def backlogs(scope: Scope, *, lines_max: int) -> list[Row]:
    """Return the newest sample of each group and topic, the farthest behind first."""
    newest = (
        scope.rows(BacklogPoint)
        .order_by("group", "topic", "-at", "-pk")
        .distinct("group", "topic")
        .values()
    )
    found = sorted(newest, key=lambda row: (-(row["lag"] or 0), row["group"], row["topic"]))
    return found[:lines_max]


def backlog_lines(scope: Scope, *, bucket: str) -> list[tuple[str, str, datetime, int | None]]:
    """Return the highest lag of each group and topic in each minute, hour or day, by time."""
    found = (
        scope.rows(BacklogPoint)
        .order_by()
        .annotate(slot=Trunc("at", bucket))
        .values_list("group", "topic", "slot")
        .annotate(Max("lag"))
        .order_by("slot", "group", "topic")
    )
    return list(found)
