"""Skew, rates and backlog, as plots and tables."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from apps.console import plots
from apps.console.days import day, day_and_hour, hour
from apps.console.pipelines import codes, tables
from apps.console.pipelines.section import ROWS_ASKED, ROWS_SHOWN, Findings, Section, cut_at
from apps.pipelines.selectors import load
from apps.pipelines.selectors.results import Scope

TOPICS_DRAWN = 6
LINES_DRAWN = len(plots.LOOKS)
_SHARES_MAX = 4_096
_KEYS_DRAWN = 12
# The finest slots of a plot over so much time.
_MINUTES_UP_TO = timedelta(hours=25)
_HOURS_UP_TO = timedelta(days=31)

Row = dict[str, Any]


def _cut(topic_count: int) -> str:
    """Return how many topics are not drawn; empty where all are."""
    if topic_count <= TOPICS_DRAWN:
        return ""
    return _("Drawn are the first %(shown)s of %(count)s topics, the most uneven.") % {
        "shown": TOPICS_DRAWN,
        "count": topic_count,
    }


def skew(scope: Scope) -> Findings:
    """Show how load is shared by queues, and the keys that most messages have."""
    rows = load.shares(scope, lines_max=_SHARES_MAX)
    rehashed = load.rehashed_shares(scope)
    by_topic: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_topic[row["topic"]].append(row)
    for topic, queues in by_topic.items():
        _share_out(topic, queues, rehashed)
    worst = sorted(by_topic, key=lambda name: -by_topic[name][0]["imbalance"])
    shown = tables.table(
        (
            tables.text("topic", _("Topic")),
            tables.count("queue", _("Queue")),
            tables.count("messages", _("Messages")),
            tables.size("bytes", _("Bytes"), wide=True),
            tables.share("share", _("Share")),
            tables.share("even", _("Even would be"), wide=True),
            tables.share("rehashed", _("With a good hash")),
            tables.number("imbalance", _("Most to mean"), wide=True),
            tables.number("gini", _("Gini"), wide=True),
        ),
        [row for name in worst for row in by_topic[name]],
        rows_max=ROWS_SHOWN,
    )
    keys = load.hot_keys(scope, lines_max=ROWS_ASKED)
    hot = tables.table(
        (
            tables.text("topic", _("Topic")),
            tables.text("key_kind", _("Kind"), wide=True),
            tables.text("key", _("Key")),
            tables.count("messages", _("Messages")),
            tables.size("bytes", _("Bytes"), wide=True),
            tables.share("share", _("Share, at most")),
            tables.count("queues", _("Queues"), wide=True),
        ),
        [{**row, "key_kind": codes.key_kind(row["key_kind"])} for row in keys],
        rows_max=ROWS_SHOWN,
    )
    hottest = keys[:_KEYS_DRAWN]
    return Findings(
        sections=[
            Section(
                name="shares",
                title=_("Load of the queues"),
                plots=[_share_plot(name, by_topic[name]) for name in worst[:TOPICS_DRAWN]],
                cut=_cut(len(worst)),
                table=shown,
                source="gold.queue_shares",
                empty=_("No topic had messages in this time."),
                note=_(
                    "The dashed line is an even share. Topics whose fullest queue is farthest "
                    "from the mean come first; 1 is even."
                ),
            ),
            Section(
                name="keys",
                title=_("Hot keys"),
                plots=[
                    plots.columns(
                        _("Messages of the hottest keys"),
                        [plots.cut(row["key"], 14) for row in hottest],
                        [(_("messages"), [row["messages"] for row in hottest])],
                    )
                ]
                if keys
                else (),
                cut=cut_at(_KEYS_DRAWN, len(keys)),
                table=hot,
                source="gold.hot_keys",
                empty=_("No message had a key."),
            ),
        ]
    )


def rates(scope: Scope) -> Findings:
    """Show messages sent, worked on and failed over time."""
    bucket = bucket_of(scope)
    rows = load.rates(scope, bucket=bucket)
    for row in rows:
        # Only traces tell of failures; without any, none is not known to have happened.
        row["failures"] = None if row["worked"] is None else row["failures"]
    slots = _slots([row["at"] for row in rows], bucket)
    by_slot = {row["at"]: row for row in rows}
    names = (
        (_("sent"), "sent"),
        (_("worked on"), "worked"),
        (pgettext("messages", "failed"), "failures"),
    )
    drawn = plots.lines(
        str(_A_SLOT[bucket]),
        [_slot_label(at, bucket) for at in slots],
        [
            (name, [(by_slot[at][key] or 0) if at in by_slot else 0 for at in slots])
            for name, key in names
        ],
        looks=("sent", "consumed", "failed"),
    )
    over_time = tables.table(
        (
            tables.moment("at", str(_SLOTS[bucket])),
            tables.count("sent", _("Sent")),
            tables.size("sent_bytes", _("Bytes"), wide=True),
            tables.count("worked", _("Worked on")),
            tables.count("failures", _("Failed")),
        ),
        rows[::-1],
        rows_max=ROWS_SHOWN,
    )
    sums = load.rate_sums(scope, lines_max=ROWS_ASKED)
    for row in sums:
        worked_ms, count = row["worked_ms"], row["messages"]
        row["mean_ms"] = worked_ms / count if worked_ms is not None and count else None
        row["failures"] = row["failures"] if row["group"] else None
        is_work = bool(row["group"])
        row["who"] = _("worked on by %(group)s") % {"group": row["group"]} if is_work else _("sent")
    by_topic = tables.table(
        (
            tables.text("topic", _("Topic")),
            tables.text("who", _("What")),
            tables.count("messages", _("Messages")),
            tables.count("failures", _("Failed")),
            tables.size("bytes", _("Bytes"), wide=True),
            tables.count("busiest", _("In the busiest minute"), wide=True),
            tables.milliseconds("mean_ms", _("Mean work"), wide=True),
        ),
        sums,
        rows_max=ROWS_SHOWN,
    )
    return Findings(
        sections=[
            Section(
                name="time",
                title=str(_A_SLOT[bucket]),
                plots=[drawn] if rows else (),
                table=over_time,
                source="gold.rates",
                empty=_("Nothing was sent in this time."),
                note=_("A message that several groups work on counts once for each."),
            ),
            Section(
                name="topics",
                title=_("By topic and group"),
                table=by_topic,
                empty=_("Nothing was sent in this time."),
            ),
        ]
    )


def backlog(scope: Scope) -> Findings:
    """Show how far groups are behind, why, and when they will have caught up."""
    bucket = bucket_of(scope)
    rows = load.backlogs(scope, lines_max=ROWS_ASKED)
    all_behind = [(row["group"], row["topic"]) for row in rows if row["lag"]]
    behind = all_behind[:LINES_DRAWN]
    found = load.backlog_lines(scope, bucket=bucket)
    # Samples come less often than slots: those without one are left out.
    slots = sorted({at for _, _, at, _ in found})
    lags = {(group, topic, at): lag for group, topic, at, lag in found}
    drawn = plots.lines(
        _("Messages behind"),
        [_slot_label(at, bucket) for at in slots],
        [
            (
                _("%(group)s on %(topic)s") % {"group": group, "topic": topic},
                [lags.get((group, topic, at)) for at in slots],
            )
            for group, topic in behind
        ],
    )
    shown = tables.table(
        (
            tables.text("group", _("Group")),
            tables.text("topic", _("Topic")),
            tables.count("lag", _("Behind")),
            tables.text("cause_said", _("Cause")),
            tables.text("drain", _("Gone in")),
            tables.number("trend_per_s", _("Grows a second"), wide=True),
            tables.number("send_rate", _("Sent/s"), wide=True),
            tables.number("consume_rate", _("Consumed/s"), wide=True),
            tables.moment("at", _("As of"), wide=True),
        ),
        [_backlog_row(row) for row in rows],
        rows_max=ROWS_SHOWN,
        levels=lambda row: {"cause_said": CAUSE_LEVELS.get(row["cause"], "")},
    )
    return Findings(
        sections=[
            Section(
                name="groups",
                title=_("Backlog, with its cause"),
                plots=[drawn] if behind else (),
                cut=cut_at(LINES_DRAWN, len(all_behind)),
                table=shown,
                source="gold.backlog",
                empty=_("No group was looked at in this time."),
            )
        ]
    )


_A_SLOT: Mapping[str, Promise] = {
    "minute": gettext_lazy("Messages a minute"),
    "hour": gettext_lazy("Messages an hour"),
    "day": gettext_lazy("Messages a day"),
}
_SLOTS: Mapping[str, Promise] = {
    "minute": gettext_lazy("Minute"),
    "hour": gettext_lazy("Hour"),
    "day": gettext_lazy("Day"),
}

CAUSES: Mapping[str, Promise] = {
    "none": gettext_lazy("none: it keeps up"),
    "no_consumer": gettext_lazy("nobody consumes"),
    "burst": gettext_lazy("more was sent than before"),
    "slow": gettext_lazy("consumers are slower than before"),
    "failing": gettext_lazy("the same messages fail again and again"),
    "stuck": gettext_lazy("stands still"),
    "unknown": gettext_lazy("not known"),
}
CAUSE_LEVELS: Mapping[str, str] = {
    "no_consumer": "failed",
    "stuck": "failed",
    "failing": "failed",
    "slow": "late",
    "burst": "late",
}


def bucket_of(scope: Scope) -> str:
    """Return the slots that a plot of a scope has: minute, hour or day."""
    if scope.start is None or scope.end is None:
        return "minute"
    length = scope.end - scope.start
    if length <= _MINUTES_UP_TO:
        return "minute"
    return "hour" if length <= _HOURS_UP_TO else "day"


def _share_out(
    topic: str, queues: Sequence[Row], rehashed: Mapping[tuple[str, int], float]
) -> None:
    """Add to each queue its share of the topic's messages, and what would be even."""
    total = sum(row["messages"] for row in queues)
    even = 1 / len(queues)
    fullest = max(row["messages"] for row in queues)
    for row in queues:
        row["share"] = row["messages"] / total if total else 0.0
        row["even"] = even
        row["rehashed"] = rehashed.get((topic, row["queue"]))
        row["imbalance"] = fullest / (total * even) if total else 1.0


def _share_plot(topic: str, queues: Sequence[Row]) -> plots.Plot:
    total = sum(row["messages"] for row in queues)
    marks = [None if row["rehashed"] is None else row["rehashed"] * total for row in queues]
    return plots.columns(
        topic,
        [str(row["queue"]) for row in queues],
        [(_("messages"), [row["messages"] for row in queues])],
        even=total / len(queues),
        marks=marks,
        marks_name=_("with a good hash"),
    )


def _backlog_row(row: Row) -> Row:
    lag, drain_s = row["lag"], row["drain_s"]
    if lag == 0:
        drain = _("nothing to do")
    elif drain_s is None:
        drain = tables.UNKNOWN if row["cause"] == "none" else _("never, or not known")
    else:
        drain = tables.seconds("", "").write(drain_s)
    return {**row, "drain": drain, "cause_said": CAUSES.get(row["cause"], row["cause"])}


def _slots(known: Sequence[datetime], bucket: str) -> list[datetime]:
    """Return all slots from the first one that is known to the last, by time."""
    if not known:
        return []
    step = timedelta(**{f"{bucket}s": 1})
    count = (known[-1] - known[0]) // step
    return [known[0] + number * step for number in range(count + 1)]


def _slot_label(at: datetime, bucket: str) -> str:
    return {"minute": hour, "hour": day_and_hour, "day": day}[bucket](at)
