"""Losses, duplicates, disorder and rules, as plots and tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from apps.console import plots
from apps.console.pipelines import tables
from apps.console.pipelines.section import (
    ROWS_ASKED,
    ROWS_SHOWN,
    Figure,
    Findings,
    Section,
)
from apps.console.templatetags import mq
from apps.pipelines.selectors import integrity
from apps.pipelines.selectors.results import Scope

# A matrix larger than this is read by nobody; the table has a download.
MATRIX_CELLS_MAX = 1_024
MATRIX_TOPICS_MAX = 24
MATRIX_QUEUES_MAX = 32


def loss(scope: Scope) -> Findings:
    """Show what producers numbered and nobody stored, and what came twice."""
    rows = integrity.losses(scope, lines_max=MATRIX_CELLS_MAX)
    sums = integrity.loss_sums(scope)
    topics = _topics(rows)
    cells = [row for row in rows if row["topic"] in topics and row["queue"] < MATRIX_QUEUES_MAX]
    missing = {(row["topic"], row["queue"]): row["missing"] for row in cells}
    repeated = {
        (row["topic"], row["queue"]): row["stored_twice"] + row["consumed_twice"] for row in cells
    }
    totals = tables.table(
        (
            tables.text("topic", "Topic"),
            tables.count("queue", "Queue"),
            tables.count("messages", "Messages", wide=True),
            tables.count("numbered", "Numbered", wide=True),
            tables.count("producers", "Producers", wide=True),
            tables.count("gaps", "Gaps", wide=True),
            tables.count("missing", "Missing"),
            tables.count("recovered", "Came later", wide=True),
            tables.count("stored_twice", "Stored twice"),
            tables.count("consumed_twice", "Consumed twice", wide=True),
        ),
        rows,
        rows_max=ROWS_SHOWN,
        levels=lambda row: {"missing": "missing"} if row["missing"] else {},
    )
    drawn = [
        plots.matrix("Missing messages", missing, rows=topics, what="missing"),
        plots.matrix("Repeats, stored or consumed", repeated, rows=topics, what="repeats"),
    ]
    gaps = tables.table(
        (
            tables.text("topic", "Topic"),
            tables.count("queue", "Queue"),
            tables.text("producer", "Producer"),
            tables.text("epoch", "Epoch", wide=True),
            tables.count("first_seq", "From number"),
            tables.count("last_seq", "to"),
            tables.count("missing", "Missing"),
            tables.count("next_offset", "Before offset", wide=True),
            tables.moment("found_at", "Seen", wide=True),
        ),
        integrity.gaps(scope, lines_max=ROWS_ASKED),
        rows_max=ROWS_SHOWN,
    )
    return Findings(
        figures=_loss_figures(sums),
        sections=[
            Section(
                name="queues",
                title="Lost and repeated, by topic and queue",
                plots=drawn if rows else (),
                table=totals,
                source="gold.loss_totals",
                empty="No queue had messages in this time.",
                note="Only messages that producers number can be missed: "
                "see “numbered” beside “messages”.",
            ),
            Section(
                name="gaps",
                title="Missing numbers",
                table=gaps,
                source="gold.loss",
                empty="No number is missing.",
            ),
        ],
    )


def duplicates(scope: Scope) -> Findings:
    """Show what was stored or worked on more than once, and why."""
    causes = integrity.duplicate_causes(scope)
    names = sorted({row["cause"] for row in causes})
    counts = {(row["cause"], row["kind"]): row["extra"] for row in causes}
    kinds = ("stored", "consumed")
    drawn = plots.columns(
        "Copies beyond the first, by cause",
        names,
        [(kind, [counts.get((name, kind), 0) for name in names]) for kind in kinds],
    )
    rows = integrity.duplicates(scope, lines_max=ROWS_ASKED)
    shown = tables.table(
        (
            tables.text("topic", "Topic"),
            tables.text("group", "Group"),
            tables.text("kind", "Kind"),
            tables.text("cause", "Cause"),
            tables.count("messages", "Messages"),
            tables.count("extra", "Extra copies"),
        ),
        rows,
        rows_max=ROWS_SHOWN,
    )
    return Findings(
        sections=[
            Section(
                name="causes",
                title="Duplicates",
                plots=[drawn] if rows else (),
                table=shown,
                source="gold.duplicate_totals",
                empty="Nothing came twice.",
                note="By queue they are in the matrix of the job loss; each message that came "
                "twice is in the Parquet files of gold.duplicates.",
            )
        ]
    )


def ordering(scope: Scope) -> Findings:
    """Show where the order of a key or a queue did not hold."""
    rows = integrity.disorder_kinds(scope, lines_max=ROWS_ASKED)
    kinds = ("two_queues", "backwards", "overlap")
    totals = [sum(row["times"] for row in rows if row["kind"] == kind) for kind in kinds]
    drawn = plots.columns(
        "How often order did not hold",
        [kind.replace("_", " ") for kind in kinds],
        [("times", totals)],
    )
    by_kind = tables.table(
        (
            tables.text("topic", "Topic"),
            tables.text("group", "Group"),
            tables.text("kind", "Kind"),
            tables.count("kept", "Places", wide=True),
            tables.count("times", "Times"),
            tables.moment("last_at", "Last", wide=True),
        ),
        rows,
        rows_max=ROWS_SHOWN,
    )
    places = tables.table(
        (
            tables.text("topic", "Topic"),
            tables.text("group", "Group", wide=True),
            tables.text("kind", "Kind"),
            tables.text("sharding_key", "Key"),
            tables.count("queue", "Queue", wide=True),
            tables.count("queue_offset", "Offset"),
            tables.count("other_queue", "Other queue", wide=True),
            tables.count("other_offset", "Other offset", wide=True),
            tables.text("client", "Client", wide=True),
            tables.text("pattern", "Pattern", wide=True),
            tables.count("times", "Times"),
            tables.moment("at", "When", wide=True),
        ),
        integrity.disorders(scope, lines_max=ROWS_ASKED),
        rows_max=ROWS_SHOWN,
    )
    return Findings(
        sections=[
            Section(
                name="kinds",
                title="Order that did not hold",
                plots=[drawn] if rows else (),
                table=by_kind,
                source="gold.disorder",
                empty="Every key kept its order.",
            ),
            Section(
                name="places", title="The newest places", table=places, empty="There are none."
            ),
        ]
    )


def quality(scope: Scope) -> Findings:
    """Show which rules the tables broke."""
    rows = integrity.rules(scope, lines_max=ROWS_ASKED * 4)
    broken = [row for row in rows if row["broken"]]
    shown = tables.table(
        (
            tables.text("table_name", "Table"),
            tables.text("rule", "Rule"),
            tables.text("topic", "Topic"),
            tables.text("severity", "Severity", wide=True),
            tables.count("broken", "Broken"),
            tables.count("looked", "of looks", wide=True),
            tables.number("worst", "Worst", wide=True),
            tables.number("limit", "Allowed", wide=True),
        ),
        rows,
        rows_max=ROWS_SHOWN,
        levels=lambda row: {"broken": _rule_level(row)},
    )
    figures = [
        Figure(name="Rules", value=mq.count(len(rows)), note="looked at, by table and topic"),
        Figure(
            name="Broken",
            value=mq.count(len(broken)),
            note="at least once in this time",
            level="late" if broken else "",
        ),
        Figure(
            name="That block",
            value=mq.count(sum(row["severity"] == "block" for row in broken)),
            note="what else was found then is not to be believed",
            level="failed" if any(row["severity"] == "block" for row in broken) else "",
        ),
    ]
    return Findings(
        figures=figures if rows else (),
        sections=[
            Section(
                name="rules",
                title="Rules of the tables",
                table=shown,
                source="gold.quality",
                empty="No rule was looked at in this time.",
            )
        ],
    )


def _topics(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the topics of a matrix by name: those where most is wrong, which come first."""
    names = list(dict.fromkeys(row["topic"] for row in rows))
    return sorted(names[:MATRIX_TOPICS_MAX])


def _loss_figures(sums: Mapping[str, Any]) -> Sequence[Figure]:
    if sums["messages"] is None:
        return ()
    numbered = sums["numbered"] / sums["messages"] if sums["messages"] else 0.0
    return (
        Figure(name="Messages", value=mq.short(sums["messages"]), note="looked at"),
        Figure(name="Numbered", value=f"{100 * numbered:.1f} %", note="can be missed at all"),
        Figure(
            name="Missing",
            value=mq.short(sums["missing"]),
            note=f"in {mq.count(sums['gaps'])} gaps; {mq.count(sums['recovered'])} came later",
            level="failed" if sums["missing"] else "",
        ),
        Figure(
            name="Stored twice",
            value=mq.short(sums["stored_twice"]),
            note=f"consumed twice {mq.short(sums['consumed_twice'])}",
        ),
    )


def _rule_level(row: Mapping[str, Any]) -> str:
    if not row["broken"]:
        return ""
    return "failed" if row["severity"] == "block" else "late"
