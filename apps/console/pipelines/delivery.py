"""Delays, retries, dead letters, rebalances and the lake itself, as plots and tables."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext, pgettext_lazy

from apps.console import engine_words, plots
from apps.console.days import day, day_and_hour, hour
from apps.console.pipelines import tables
from apps.console.pipelines.load import bucket_of
from apps.console.pipelines.section import ROWS_ASKED, ROWS_SHOWN, Figure, Findings, Section, cut_at
from apps.console.templatetags import mq
from apps.pipelines.catalogue import JOBS
from apps.pipelines.selectors import delivery
from apps.pipelines.selectors.results import Scope

_ATTEMPTS_DRAWN = 20
_CAUSES_DRAWN = 12
_DAYS_DRAWN = 60
_HOUR = timedelta(hours=1)
_FINALS = (
    ("done", pgettext_lazy("messages", "done")),
    ("open", pgettext_lazy("messages", "open")),
    ("dead", pgettext_lazy("messages", "dead")),
)


def delays(scope: Scope) -> Findings:
    """Show how late delayed messages were."""
    bars = delivery.lateness(scope)
    drawn = plots.columns(
        _("Messages by lateness"),
        [_range(bar) for bar in bars],
        [(_("messages"), [bar["messages"] for bar in bars])],
    )
    rows = delivery.delays(scope, lines_max=ROWS_ASKED)
    for row in rows:
        row["level"] = row["delay_level"] or pgettext("delay", "its own")
    shown = tables.table(
        (
            tables.text("topic", _("Topic")),
            tables.text("level", _("Level")),
            tables.count("messages", _("Delivered")),
            tables.count("early", _("Early")),
            tables.count("cancelled", _("Cancelled"), wide=True),
            tables.milliseconds("p50_ms", _("Half later than"), wide=True),
            tables.milliseconds("p99_ms", _("1 % later than")),
            tables.milliseconds("max_ms", _("Latest"), wide=True),
            tables.milliseconds("stored_p99_ms", _("1 % stored later than"), wide=True),
        ),
        rows,
        rows_max=ROWS_SHOWN,
        levels=lambda row: {"early": "late"} if row["early"] else {},
    )
    histogram = tables.table(
        (tables.text("range", _("Late by")), tables.count("messages", _("Messages"))),
        [{**bar, "range": _range(bar)} for bar in bars],
        rows_max=ROWS_SHOWN,
    )
    return Findings(
        sections=[
            Section(
                name="lateness",
                title=_("Lateness of delayed messages"),
                plots=[drawn] if bars else (),
                table=histogram,
                source="gold.lateness",
                empty=_("No delayed message was delivered in this time."),
            ),
            Section(
                name="levels",
                title=_("By topic and level"),
                table=shown,
                source="gold.delays",
                empty=_("No delayed message was delivered or cancelled in this time."),
                note=_("Over several windows the lateness is that of the worst one."),
            ),
        ]
    )


def retries(scope: Scope) -> Findings:
    """Show how many attempts messages took, and why they failed or died."""
    counted = delivery.attempts(scope)
    every = sorted({row["attempts"] for row in counted})
    numbers = every[:_ATTEMPTS_DRAWN]
    counts = {(row["attempts"], row["final"]): row["messages"] for row in counted}
    drawn = plots.columns(
        _("Messages that failed, by attempts"),
        [str(number) for number in numbers if number > 1],
        [
            (str(name), [counts.get((number, final), 0) for number in numbers if number > 1])
            for final, name in _FINALS
        ],
        looks=("consumed", "quiet", "failed"),
    )
    rows = delivery.retries(scope, lines_max=ROWS_ASKED)
    by_group = tables.table(
        (
            tables.text("topic", _("Topic")),
            tables.text("group", _("Group")),
            tables.count("at_once", _("Done at once"), wide=True),
            tables.count("done", _("Done after failing")),
            tables.count("open", pgettext("messages", "Open")),
            tables.count("dead", pgettext("messages", "Dead")),
            tables.count("attempts", _("Most attempts"), wide=True),
            tables.seconds("p99_s", _("1 % took longer than"), wide=True),
        ),
        rows,
        rows_max=ROWS_SHOWN,
        levels=lambda row: {"dead": "failed"} if row["dead"] else {},
    )
    causes = delivery.causes(scope, lines_max=ROWS_ASKED)
    for row in causes:
        row["is_poison"] = _("the same messages") if row["poison"] else ""
    sums = delivery.cause_sums(scope, lines_max=_CAUSES_DRAWN + 1)
    worst = sums[:_CAUSES_DRAWN]
    cause_plot = plots.columns(
        _("Messages that failed, by cause"),
        [plots.cut(row["error_class"] or pgettext("cause", "none given"), 16) for row in worst],
        [
            (_("done or open"), [max(0, row["messages"] - row["dead"]) for row in worst]),
            (pgettext("messages", "dead"), [row["dead"] for row in worst]),
        ],
        looks=("quiet", "failed"),
    )
    by_cause = tables.table(
        (
            tables.text("topic", _("Topic")),
            tables.text("group", _("Group")),
            tables.text("error_class", _("Cause")),
            tables.count("failures", _("Failures")),
            tables.count("messages", _("Messages"), wide=True),
            tables.count("dead", pgettext("messages", "Dead")),
            tables.text("is_poison", _("Fails again and again"), wide=True),
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
                title=_("Attempts"),
                plots=[drawn] if failed else (),
                cut=cut_at(_ATTEMPTS_DRAWN, len(every)),
                table=by_group,
                source="gold.retries",
                empty=_("No group worked in this time."),
            ),
            Section(
                name="causes",
                title=_("Causes of failures and dead letters"),
                plots=[cause_plot] if causes else (),
                cut=cut_at(_CAUSES_DRAWN, len(sums)),
                table=by_cause,
                source="gold.dead_causes",
                empty=_("Nothing failed."),
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
        _("Rebalances an hour, all groups"),
        [day_and_hour(at) if long else hour(at) for at in all_hours],
        [
            (_("calm"), [a - b for a, b in zip(everything, in_storms, strict=True)]),
            (_("in a storm"), in_storms),
        ],
        looks=("one", "failed"),
    )
    rows = delivery.rebalances(scope, lines_max=ROWS_ASKED)
    shown = tables.table(
        (
            tables.text("group", _("Group")),
            tables.moment("hour", _("Hour")),
            tables.count("rebalances", _("Rebalances")),
            tables.count("queues_moved", _("Queues moved"), wide=True),
            tables.count("most_a_minute", _("In the worst minute"), wide=True),
            tables.truth("is_storm", _("Storm")),
            tables.seconds("without_owner_s", _("Queues without owner")),
            tables.text("top_reason", _("Mostly because"), wide=True),
        ),
        [{**row, "top_reason": str(engine_words.reason(row["top_reason"]))} for row in rows],
        rows_max=ROWS_SHOWN,
        levels=lambda row: {"is_storm": "failed"} if row["is_storm"] else {},
    )
    return Findings(
        sections=[
            Section(
                name="hours",
                title=_("Rebalances by hour"),
                plots=[drawn] if hours else (),
                table=shown,
                source="gold.rebalances",
                empty=_("No queue changed hands in this time."),
            )
        ]
    )


def lake(scope: Scope) -> Findings:
    """Show what a job that copies has put into the lake, whatever the scope is."""
    written = JOBS[scope.job].writes
    every_day = delivery.lake_days(written, days_max=_DAYS_DRAWN + 1)
    days = every_day[-_DAYS_DRAWN:]
    drawn = plots.columns(
        _("Rows by day of storing"),
        [day(row["day"]) for row in days],
        [(_("rows"), [row["rows_count"] for row in days])],
    )
    rows = delivery.lake_topics(written, lines_max=ROWS_ASKED)
    shown = tables.table(
        (
            tables.text("table", _("Table")),
            tables.text("topic", _("Topic")),
            tables.count("rows_count", _("Rows")),
            tables.size("size_bytes", _("Bytes")),
            tables.count("files", _("Files")),
            tables.moment("last_at", _("Up to"), wide=True),
        ),
        rows,
        rows_max=ROWS_SHOWN,
    )
    return Findings(
        figures=_lake_figures(days),
        sections=[
            Section(
                name="lake",
                title=_("In the lake now"),
                plots=[drawn] if days else (),
                cut=_("Only the newest %(count)s days are drawn.") % {"count": _DAYS_DRAWN}
                if len(every_day) > _DAYS_DRAWN
                else "",
                table=shown,
                empty=_("The lake has nothing of this yet."),
            )
        ],
    )


def _lake_figures(days: Sequence[dict[str, Any]]) -> Sequence[Figure]:
    if not days:
        return ()
    rows = sum(row["rows_count"] for row in days)
    size_bytes = sum(row["size_bytes"] for row in days)
    in_days = ngettext("of %(count)s day", "of %(count)s days", len(days)) % {"count": len(days)}
    return (
        Figure(name=_("Rows"), value=mq.short(rows), note=in_days),
        Figure(name=_("Bytes"), value=mq.size(size_bytes), note=_("Parquet")),
        Figure(
            name=_("Bytes a row"),
            value=mq.count(round(size_bytes / rows)) if rows else mq.UNKNOWN,
            note=_("on average"),
        ),
    )


def _range(bar: dict[str, Any]) -> str:
    """Return what a bar of the histogram is of."""
    low, high = bar["from_ms"], bar["to_ms"]
    if high is None:
        return pgettext("range", "from %(low)s") % {"low": _ms(low)}
    if high <= 0:
        return pgettext("range", "early")
    return pgettext("range", "%(low)s to %(high)s") % {"low": _ms(low), "high": _ms(high)}


def _ms(value: float) -> str:
    return tables.milliseconds("", "").write(value)
