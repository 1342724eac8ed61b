"""Losses, duplicates, disorder and rules, as plots and tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from apps.console import plots
from apps.console.pipelines import codes, tables
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
            tables.text("topic", _("Topic")),
            tables.count("queue", _("Queue")),
            tables.count("messages", _("Messages"), wide=True),
            tables.count("numbered", _("Numbered"), wide=True),
            tables.count("producers", _("Producers"), wide=True),
            tables.count("gaps", _("Gaps"), wide=True),
            tables.count("missing", _("Missing")),
            tables.count("recovered", _("Came later"), wide=True),
            tables.count("stored_twice", _("Stored twice")),
            tables.count("consumed_twice", _("Consumed twice"), wide=True),
        ),
        rows,
        rows_max=ROWS_SHOWN,
        levels=lambda row: {"missing": "missing"} if row["missing"] else {},
    )
    drawn = [
        plots.matrix(_("Missing messages"), missing, rows=topics, what=_("missing")),
        plots.matrix(_("Repeats, stored or consumed"), repeated, rows=topics, what=_("repeats")),
    ]
    gaps = tables.table(
        (
            tables.text("topic", _("Topic")),
            tables.count("queue", _("Queue")),
            tables.text("producer", _("Producer")),
            tables.text("epoch", _("Epoch"), wide=True),
            tables.count("first_seq", _("From number")),
            tables.count("last_seq", _("to")),
            tables.count("missing", _("Missing")),
            tables.count("next_offset", _("Before offset"), wide=True),
            tables.moment("found_at", _("Seen"), wide=True),
        ),
        integrity.gaps(scope, lines_max=ROWS_ASKED),
        rows_max=ROWS_SHOWN,
    )
    return Findings(
        figures=_loss_figures(sums),
        sections=[
            Section(
                name="queues",
                title=_("Lost and repeated, by topic and queue"),
                plots=drawn if rows else (),
                table=totals,
                source="gold.loss_totals",
                empty=_("No queue had messages in this time."),
                note=_(
                    "Only messages that producers number can be missed: "
                    "see “numbered” beside “messages”."
                ),
                cut=_cut(rows),
            ),
            Section(
                name="gaps",
                title=_("Missing numbers"),
                table=gaps,
                source="gold.loss",
                empty=_("No number is missing."),
            ),
        ],
    )


def duplicates(scope: Scope) -> Findings:
    """Show what was stored or worked on more than once, and why."""
    causes = integrity.duplicate_causes(scope)
    names = sorted({row["cause"] for row in causes})
    rows = [
        {**row, "kind": codes.copy(row["kind"]), "cause": codes.cause(row["cause"])}
        for row in integrity.duplicates(scope, lines_max=ROWS_ASKED)
    ]
    counts = {(row["cause"], row["kind"]): row["extra"] for row in causes}
    kinds = (("stored", _("stored")), ("consumed", _("consumed")))
    drawn = plots.columns(
        _("Copies beyond the first, by cause"),
        [codes.cause(name) for name in names],
        [(said, [counts.get((name, kind), 0) for name in names]) for kind, said in kinds],
    )
    shown = tables.table(
        (
            tables.text("topic", _("Topic")),
            tables.text("group", _("Group")),
            tables.text("kind", _("Kind")),
            tables.text("cause", _("Cause")),
            tables.count("messages", _("Messages")),
            tables.count("extra", _("Extra copies")),
        ),
        rows,
        rows_max=ROWS_SHOWN,
    )
    return Findings(
        sections=[
            Section(
                name="causes",
                title=_("Duplicates"),
                plots=[drawn] if rows else (),
                table=shown,
                source="gold.duplicate_totals",
                empty=_("Nothing came twice."),
                note=_(
                    "By queue they are in the matrix of the job loss; each message that came "
                    "twice is in the Parquet files of gold.duplicates."
                ),
            )
        ]
    )


def ordering(scope: Scope) -> Findings:
    """Show where the order of a key or a queue did not hold."""
    rows = integrity.disorder_kinds(scope, lines_max=ROWS_ASKED)
    kinds = ("two_queues", "backwards", "overlap")
    totals = [sum(row["times"] for row in rows if row["kind"] == kind) for kind in kinds]
    drawn = plots.columns(
        _("How often order did not hold"),
        [codes.disorder(kind) for kind in kinds],
        [(_("times"), totals)],
    )
    by_kind = tables.table(
        (
            tables.text("topic", _("Topic")),
            tables.text("group", _("Group")),
            tables.text("kind", _("Kind")),
            tables.count("kept", _("Places"), wide=True),
            tables.count("times", _("Times")),
            tables.moment("last_at", _("Last"), wide=True),
        ),
        [{**row, "kind": codes.disorder(row["kind"])} for row in rows],
        rows_max=ROWS_SHOWN,
    )
    places = tables.table(
        (
            tables.text("topic", _("Topic")),
            tables.text("group", _("Group"), wide=True),
            tables.text("kind", _("Kind")),
            tables.text("sharding_key", _("Key")),
            tables.text("place", _("Place")),
            tables.text("other_place", _("Other place"), wide=True),
            tables.text("client", _("Client"), wide=True),
            tables.text("pattern", _("Pattern"), wide=True),
            tables.count("times", _("Times")),
            tables.moment("at", _("When"), wide=True),
        ),
        [_place(row) for row in integrity.disorders(scope, lines_max=ROWS_ASKED)],
        rows_max=ROWS_SHOWN,
    )
    return Findings(
        sections=[
            Section(
                name="kinds",
                title=_("Order that did not hold"),
                plots=[drawn] if rows else (),
                table=by_kind,
                source="gold.disorder",
                empty=_("Every key kept its order."),
            ),
            Section(
                name="places",
                title=_("The newest places"),
                table=places,
                empty=_("There are none."),
            ),
        ]
    )


def quality(scope: Scope) -> Findings:
    """Show which rules the tables broke."""
    rows = integrity.rules(scope, lines_max=ROWS_ASKED * 4)
    broken = [row for row in rows if row["broken"]]
    shown = tables.table(
        (
            tables.text("table_name", _("Table")),
            tables.text("rule", _("Rule")),
            tables.text("topic", _("Topic")),
            tables.text("severity_said", _("Severity"), wide=True),
            tables.count("broken", _("Broken")),
            tables.count("looked", _("of looks"), wide=True),
            tables.number("worst", _("Worst"), wide=True),
            tables.number("limit", _("Allowed"), wide=True),
        ),
        [{**row, "severity_said": codes.severity(row["severity"])} for row in rows],
        rows_max=ROWS_SHOWN,
        levels=lambda row: {"broken": _rule_level(row)},
    )
    figures = [
        Figure(name=_("Rules"), value=mq.count(len(rows)), note=_("looked at, by table and topic")),
        Figure(
            name=_("Broken"),
            value=mq.count(len(broken)),
            note=_("at least once in this time"),
            level="late" if broken else "",
        ),
        Figure(
            name=_("That block"),
            value=mq.count(sum(row["severity"] == "block" for row in broken)),
            note=_("what else was found then is not to be believed"),
            level="failed" if any(row["severity"] == "block" for row in broken) else "",
        ),
    ]
    return Findings(
        figures=figures if rows else (),
        sections=[
            Section(
                name="rules",
                title=_("Rules of the tables"),
                table=shown,
                source="gold.quality",
                empty=_("No rule was looked at in this time."),
            )
        ],
    )


def _cut(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what the matrix does not draw; empty where it draws all."""
    is_cut = (
        len(rows) >= MATRIX_CELLS_MAX
        or len({row["topic"] for row in rows}) > MATRIX_TOPICS_MAX
        or any(row["queue"] >= MATRIX_QUEUES_MAX for row in rows)
    )
    if not is_cut:
        return ""
    return _(
        "Drawn are at most %(topics)s topics, the worst, and of each the first %(queues)s queues."
    ) % {"topics": MATRIX_TOPICS_MAX, "queues": MATRIX_QUEUES_MAX}


def _topics(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the topics of a matrix by name: those where most is wrong, which come first."""
    names = list(dict.fromkeys(row["topic"] for row in rows))
    return sorted(names[:MATRIX_TOPICS_MAX])


def _loss_figures(sums: Mapping[str, Any]) -> Sequence[Figure]:
    if sums["messages"] is None:
        return ()
    numbered = sums["numbered"] / sums["messages"] if sums["messages"] else 0.0
    return (
        Figure(name=_("Messages"), value=mq.short(sums["messages"]), note=_("looked at")),
        Figure(name=_("Numbered"), value=f"{100 * numbered:.1f} %", note=_("can be missed at all")),
        Figure(
            name=_("Missing"),
            value=mq.short(sums["missing"]),
            note=_("in %(gaps)s gaps; %(later)s came later")
            % {"gaps": mq.count(sums["gaps"]), "later": mq.count(sums["recovered"])},
            level="failed" if sums["missing"] else "",
        ),
        Figure(
            name=_("Stored twice"),
            value=mq.short(sums["stored_twice"]),
            note=_("consumed twice %(count)s") % {"count": mq.short(sums["consumed_twice"])},
        ),
    )


def _place(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return where the order did not hold, as `queue:offset`; of one queue, with itself."""
    other_queue = row["queue"] if row["other_queue"] is None else row["other_queue"]
    other = row["other_offset"]
    return {
        **row,
        "kind": codes.disorder(row["kind"]),
        "pattern": codes.pattern(row["pattern"]),
        "place": f"{row['queue']}:{row['queue_offset']}",
        "other_place": None if other is None else f"{other_queue}:{other}",
    }


def _rule_level(row: Mapping[str, Any]) -> str:
    if not row["broken"]:
        return ""
    return "failed" if row["severity"] == "block" else "late"
