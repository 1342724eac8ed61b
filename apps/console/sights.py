"""A picture as far as some viewers may see it. Pure: knows pictures and what a sight shows.

A row is there when every topic and group it names may be seen. Figures of a group are the group's,
whatever it reads; sums are of the rows that are there. What is about the whole installation, and
what was cut before it came here, is unknown: None, and never written as 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from apps.access.policy import Sight, group
from apps.console import deathwatch, levels
from apps.console.deathwatch import DeathsPicture
from apps.console.freshness import State
from apps.console.jobwatch import JobsPicture
from apps.console.locks import LineRow, LockRow, LocksPicture, figures_of
from apps.console.snapshot import GroupRow, Snapshot, Totals, lag_of_all
from apps.console.sparklines import LastHourPicture, Line
from apps.console.topicrows import TopicRow, sum_known, sum_of_all

_NO_LINE: Line = {"path": "", "peak": None}
_NO_HISTORY: LastHourPicture = {
    "state": "empty", "note": "", "sent": _NO_LINE, "consumed": _NO_LINE, "lag": _NO_LINE,
}  # fmt: skip


def seen(snapshot: Snapshot, sight: Sight) -> Snapshot:
    """Return what a sight shows of a picture; for who sees everything, the picture itself."""
    if sight.is_whole:
        return snapshot
    if sight.sees_everything:
        return {
            **snapshot,
            "locks": {**snapshot["locks"], "rows": _hushed(snapshot["locks"], sight)},
        }
    topics = [row for row in snapshot["topics"] if sight.topic(row["name"])]
    groups = [_group(row, sight) for row in snapshot["groups"] if sight.group(row["name"])]
    found = cast(
        "Snapshot",
        {
            **snapshot,
            "totals": _totals(topics, groups),
            "topics": topics,
            "groups": groups,
            "locks": _locks(snapshot["locks"], sight),
            "deaths": _deaths(snapshot["deaths"], sight),
            "jobs": _jobs(snapshot["jobs"], sight),
        },
    )
    return found if sight.cluster else _without_cluster(found)


def _group(row: GroupRow, sight: Sight) -> GroupRow:
    topics = [name for name in row["topics"] if sight.topic(name)]
    queues = row["queues"]
    # A picture that travelled may have been cut: None.
    if queues is not None:
        queues = [one for one in queues if sight.topic(one["topic"])]
    members = row["members"]
    if members is not None:
        members = [
            {**one, "topics": [name for name in one["topics"] if sight.topic(name)]}
            for one in members
        ]
    return {**row, "topics": topics, "queues": queues, "members": members}


def _totals(topics: Sequence[TopicRow], groups: Sequence[GroupRow]) -> Totals:
    held = [row["held"] for row in topics]
    retries = [row["retry_lag"] for row in groups if row["retry_lag"] is not None]
    lag = lag_of_all(groups)
    return {
        "send_rate": sum_known(row["send_rate"] for row in topics),
        "consume_rate": sum_known(row["consume_rate"] for row in groups),
        "held": None if None in held else sum(count for count in held if count is not None),
        "lag": lag,
        "retry_lag": sum(retries) if retries else None,
        "lag_level": levels.level_of(lag).value,
        "in_flight": sum_of_all(row["in_flight"] for row in groups),
        "parked": None,
        "topic_count": len(topics),
        "queue_count": sum(row["queue_count"] for row in topics),
        "group_count": len(groups),
    }


def _hushed(picture: LocksPicture, sight: Sight) -> list[LockRow]:
    """Return the rows, without what consumers said to who may not read messages."""
    return [
        row if sight.peeks(group(row["group"])) else {**row, "trouble": row["seen_trouble"]}
        for row in picture["rows"]
    ]


def _locks(picture: LocksPicture, sight: Sight) -> LocksPicture:
    rows = [
        row
        for row in _hushed(picture, sight)
        if sight.group(row["group"]) and sight.topic(row["topic"])
    ]
    # Of a list that was cut nobody knows how many more rows would be theirs.
    is_cut = picture["row_count"] != len(picture["rows"])
    refused = [row["refused_per_min"] for row in rows if row["refused_per_min"] is not None]
    figures = figures_of(rows)
    if is_cut:
        figures |= {
            "held_count": None,
            "expired_count": None,
            "blocked_count": None,
            "row_count": None,
        }
    return {
        **figures,
        "refused_per_min": _known(sum(refused), is_cut=is_cut) if refused else None,
        "rows": rows,
        "lines": [line for line in picture["lines"] if _is_shown(line, sight)],
    }


def _known(count: int, *, is_cut: bool) -> int | None:
    return None if is_cut else count


def _is_shown(line: LineRow, sight: Sight) -> bool:
    """Say whether a line of history names only what may be seen: `group` or `group · topic/0`."""
    name, _, place = line["what"].partition(" · ")
    return sight.group(name) and (not place or sight.topic(place.rpartition("/")[0]))


def _deaths(picture: DeathsPicture, sight: Sight) -> DeathsPicture:
    if picture["waiting"] is None:
        return picture
    groups = [row for row in picture["groups"] if sight.group(row["group"])]
    in_need = [row for row in groups if row["waiting"]]
    ages = [row["oldest_s"] for row in in_need if row["oldest_s"] is not None]
    # The sums of a picture that has more letters than its rows cannot be divided.
    is_cut = picture["waiting"] != sum(row["waiting"] for row in picture["groups"])
    left_out = len(in_need) - deathwatch.GROUPS_SHOWN
    return {
        **picture,
        "waiting": _known(sum(row["waiting"] for row in in_need), is_cut=is_cut),
        "died_today": _known(sum(row["died_today"] for row in groups), is_cut=is_cut),
        "oldest_s": None if is_cut else max(ages, default=None),
        "groups": groups,
        "note_of_groups": deathwatch.note_of(left_out),
    }


def _jobs(picture: JobsPicture, sight: Sight) -> JobsPicture:
    return {
        **picture,
        "jobs": [row for row in picture["jobs"] if sight.group(str(row["group"]))],
    }


def _without_cluster(snapshot: Snapshot) -> Snapshot:
    """Return a picture whose figures of the whole installation are unknown."""
    delays, clockwork = snapshot["delays"], snapshot["clockwork"]
    return cast(
        "Snapshot",
        {
            **snapshot,
            "store": _unknown(snapshot["store"]),
            "delays": {
                **_unknown(delays),
                "head_level": "",
                "held_note": "",
                "levels": [_level(row) for row in delays["levels"]],
                "buckets": [],
            },
            "transactions": _unknown(snapshot["transactions"]),
            "clockwork": {**_unknown(clockwork), "state": State.NOT_KNOWN.value},
            "pipelines": {
                **_unknown(snapshot["pipelines"]),
                "state": State.NOT_KNOWN.value,
                "note": "",
            },
            "last_hour": _NO_HISTORY,
        },
    )


def _unknown(part: Mapping[str, Any]) -> dict[str, Any]:
    return dict.fromkeys(part)


def _level(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: row[name] for name in ("id", "level", "delay_s")}
    return {**_unknown(row), "bar": "", "head_level": "", **kept}
