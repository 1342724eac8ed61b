"""Delays, retries, dead letters, rebalances and the lake itself, as plots and tables."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from apps.console import plots
from apps.console.pipelines import tables
from apps.console.pipelines.load import bucket_of
from apps.console.pipelines.section import ROWS_ASKED, ROWS_SHOWN, Figure, Findings, Section
from apps.console.templatetags import mq
from apps.pipelines.catalogue import JOBS
from apps.pipelines.selectors import delivery
from apps.pipelines.selectors.results import Scope

_ATTEMPTS_DRAWN = 20
_CAUSES_DRAWN = 12
_DAYS_DRAWN = 60
_HOUR = timedelta(hours=1)
_FINALS = (("done", "done"), ("open", "open"), ("dead", "dead"))


def delays(scope: Scope) -> Findings:
    """Show how late delayed messages were."""
    bars = delivery.lateness(scope)
    drawn = plots.columns(
        "Messages by lateness",
        [_range(bar) for bar in bars],
        [("messages", [bar["messages"] for bar in bars])],
    )
    rows = delivery.delays(scope, lines_max=ROWS_ASKED)
    for row in rows:
        row["level"] = row["delay_level"] or "its own"
    shown = tables.table(
        (
            tables.text("topic", "Topic"),
            tables.text("level", "Level"),
            tables.count("messages", "Delivered"),
            tables.count("early", "Early"),
            tables.count("cancelled", "Cancelled", wide=True),
            tables.milliseconds("p50_ms", "Half later than", wide=True),
            tables.milliseconds("p99_ms", "1 % later than"),
            tables.milliseconds("max_ms", "Latest", wide=True),
            tables.milliseconds("stored_p99_ms", "1 % stored later than", wide=True),
        ),
        rows,
        rows_max=ROWS_SHOWN,
        levels=lambda row: {"early": "late"} if row["early"] else {},
    )
    histogram = tables.table(
        (tables.text("range", "Late by"), tables.count("messages", "Messages")),
        [{**bar, "range": _range(bar)} for bar in bars],
        rows_max=ROWS_SHOWN,
    )
    return Findings(
        sections=[
            Section(
                name="lateness",
                title="Lateness of delayed messages",
                plots=[drawn] if bars else (),
                table=histogram,
                source="gold.lateness",
                empty="No delayed message was delivered in this time.",
            ),
            Section(
                name="levels",
                title="By topic and level",
                table=shown,
                source="gold.delays",
                empty="No delayed message was delivered or cancelled in this time.",
                note="Over several windows the lateness is that of the worst one.",
            ),
        ]
    )


def retries(scope: Scope) -> Findings:
    """Show how many attempts messages took, and why they failed or died."""
    counted = delivery.attempts(scope)
    numbers = sorted({row["attempts"] for row in counted})[:_ATTEMPTS_DRAWN]
    counts = {(row["attempts"], row["final"]): row["messages"] for row in counted}
    drawn = plots.columns(
        "Messages that failed, by attempts",
        [str(number) for number in numbers if number > 1],
        [
            (name, [counts.get((number, final), 0) for number in numbers if number > 1])
            for final, name in _FINALS
        ],
        looks=("consumed", "quiet", "failed"),
    )
    rows = delivery.retries(scope, lines_max=ROWS_ASKED)
    by_group = tables.table(
        (
            tables.text("topic", "Topic"),
            tables.text("group", "Group"),
            tables.count("at_once", "Done at once", wide=True),
            tables.count("done", "Done after failing"),
            tables.count("open", "Open"),
            tables.count("dead", "Dead"),
            tables.count("attempts", "Most attempts", wide=True),
            tables.seconds("p99_s", "1 % took longer than", wide=True),
        ),
        rows,
        rows_max=ROWS_SHOWN,
        levels=lambda row: {"dead": "failed"} if row["dead"] else {},
    )
    causes = delivery.causes(scope, lines_max=ROWS_ASKED)
    for row in causes:
        row["is_poison"] = "the same messages" if row["poison"] else ""
    worst = delivery.cause_sums(scope, lines_max=_CAUSES_DRAWN)
    cause_plot = plots.columns(
        "Messages that failed, by cause",
        [plots.cut(row["error_class"] or "none given", 16) for row in worst],
        [
            ("done or open", [max(0, row["messages"] - row["dead"]) for row in worst]),
            ("dead", [row["dead"] for row in worst]),
        ],
        looks=("quiet", "failed"),
    )
    by_cause = tables.table(
        (
            tables.text("topic", "Topic"),
            tables.text("group", "Group"),
            tables.text("error_class", "Cause"),
            tables.count("failures", "Failures"),
            tables.count("messages", "Messages", wide=True),
            tables.count("dead", "Dead"),
            tables.text("is_poison", "Fails again and again", wide=True),
        ),
        causes,
        rows_max=ROWS_SHOWN,
        levels=lambda row: {
            "dead": "failed" if row["dead"] else "",
            "is_poison": "late" if row["poison"] else "",
        },
    )
    failed = [number for number in numbers if number > 1]
    return Findings(
        sections=[
            Section(
                name="attempts",
                title="Attempts",
                plots=[drawn] if failed else (),
                table=by_group,
                source="gold.retries",
                empty="No group worked in this time.",
            ),
            Section(
                name="causes",
                title="Causes of failures and dead letters",
                plots=[cause_plot] if causes else (),
                table=by_cause,
                source="gold.dead_causes",
                empty="Nothing failed.",
            ),
        ]
    )


def rebalances(scope: Scope) -> Findings:
    """Show how often queues changed hands, hour by hour."""
    hours = delivery.rebalance_hours(scope)
    by_hour = {row["hour"]: row for row in hours}
    all_hours: list[datetime] = []
    if hours:
        first, last = hours[0]["hour"], hours[-1]["hour"]
        all_hours = [first + number * _HOUR for number in range((last - first) // _HOUR + 1)]
    long = bucket_of(scope) != "minute"
    in_storms = [(by_hour.get(at, {}).get("in_storms") or 0) for at in all_hours]
    everything = [by_hour.get(at, {}).get("rebalances", 0) for at in all_hours]
    drawn = plots.columns(
        "Rebalances an hour, all groups",
        [at.strftime("%d %b %R" if long else "%R") for at in all_hours],
        [
            ("calm", [a - b for a, b in zip(everything, in_storms, strict=True)]),
            ("in a storm", in_storms),
        ],
        looks=("one", "failed"),
    )
    rows = delivery.rebalances(scope, lines_max=ROWS_ASKED)
    shown = tables.table(
        (
            tables.text("group", "Group"),
            tables.moment("hour", "Hour"),
            tables.count("rebalances", "Rebalances"),
            tables.count("queues_moved", "Queues moved", wide=True),
            tables.count("most_a_minute", "In the worst minute", wide=True),
            tables.truth("is_storm", "Storm"),
            tables.seconds("without_owner_s", "Queues without owner"),
            tables.text("top_reason", "Mostly because", wide=True),
        ),
        rows,
        rows_max=ROWS_SHOWN,
        levels=lambda row: {"is_storm": "failed"} if row["is_storm"] else {},
    )
    return Findings(
        sections=[
            Section(
                name="hours",
                title="Rebalances by hour",
                plots=[drawn] if hours else (),
                table=shown,
                source="gold.rebalances",
                empty="No queue changed hands in this time.",
            )
        ]
    )


def lake(scope: Scope) -> Findings:
    """Show what a job that copies has put into the lake, whatever the scope is."""
    written = JOBS[scope.job].writes
    days = delivery.lake_days(written, days_max=_DAYS_DRAWN)
    drawn = plots.columns(
        "Rows by day of storing",
        [row["day"].strftime("%d %b") for row in days],
        [("rows", [row["rows_count"] for row in days])],
    )
    rows = delivery.lake_topics(written, lines_max=ROWS_ASKED)
    shown = tables.table(
        (
            tables.text("table", "Table"),
            tables.text("topic", "Topic"),
            tables.count("rows_count", "Rows"),
            tables.size("size_bytes", "Bytes"),
            tables.count("files", "Files"),
            tables.moment("last_at", "Up to", wide=True),
        ),
        rows,
        rows_max=ROWS_SHOWN,
    )
    return Findings(
        figures=_lake_figures(days),
        sections=[
            Section(
                name="lake",
                title="In the lake now",
                plots=[drawn] if days else (),
                table=shown,
                empty="The lake has nothing of this yet.",
            )
        ],
    )


def _lake_figures(days: Sequence[dict[str, Any]]) -> Sequence[Figure]:
    if not days:
        return ()
    rows = sum(row["rows_count"] for row in days)
    size_bytes = sum(row["size_bytes"] for row in days)
    return (
        Figure(name="Rows", value=mq.short(rows), note=f"of {len(days)} days"),
        Figure(name="Bytes", value=mq.size(size_bytes), note="Parquet"),
        Figure(
            name="Bytes a row",
            value=mq.count(round(size_bytes / rows)) if rows else mq.UNKNOWN,
            note="on average",
        ),
    )


def _range(bar: dict[str, Any]) -> str:
    """Return what a bar of the histogram is of."""
    low, high = bar["from_ms"], bar["to_ms"]
    if high is None:
        return f"from {_ms(low)}"
    if high <= 0:
        return "early"
    return f"{_ms(low)} to {_ms(high)}"


def _ms(value: float) -> str:
    return tables.milliseconds("", "").write(value)
