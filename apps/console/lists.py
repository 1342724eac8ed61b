"""Rows of the lists of topics and groups, as pages show them and files hold them. Pure.

None is unknown everywhere. A row that is too old says so, and never becomes a zero.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypedDict

from apps.console.levels import level_of, trend_of
from apps.console.plots import path
from apps.core.lines import csv_row
from apps.core.moments import ms_of
from apps.core.pagination import rfc3339
from apps.metrics.lists import READERS_SHOWN
from apps.metrics.looks import LOOK_KEPT_MS
from apps.metrics.models import GroupSummary, TopicSummary
from apps.metrics.models.summaries import Summary

# Samples come every 5 s.
STALE_MS = 30_000
SPARK_WIDTH, SPARK_HEIGHT = 96, 20

Line = Sequence[float | None]


class Freshness(TypedDict):
    """Of when a row is, and since when that is too old; None while it is not."""

    sampled_at: str
    stale_s: int | None


class GroupListRow(Freshness):
    """A group of the list; ages and times in seconds."""

    name: str
    topics: list[str]
    more_topics: int
    is_ordered: bool
    lag: int | None
    lag_level: str
    trend: str | None
    spark: str
    oldest_s: int | None
    members: int | None
    blocked: int | None
    arrive_rate: float | None
    consume_rate: float | None
    in_flight: int | None
    retry_lag: int | None
    dead_letters: int | None
    drain_s: int | None


class ReaderCell(TypedDict):
    """A group that reads a topic."""

    group: str
    lag: int | None
    lag_level: str


class TopicListRow(Freshness):
    """A topic of the list."""

    name: str
    type: str
    cleanup: str
    queue_count: int | None
    held: int | None
    send_rate: float | None
    spark: str
    group_count: int
    readers: list[ReaderCell]
    more_readers: int
    lag: int | None
    lag_level: str
    oldest_s: int | None
    blocked: int | None


def group_row(row: GroupSummary, line: Line | None, *, now_ms: int) -> GroupListRow:
    """Return a group as the list shows it; `line` is its lag of the last hour by minute."""
    is_seen = row.looked_at is not None and abs(now_ms - ms_of(row.looked_at)) <= LOOK_KEPT_MS
    trend = trend_of(lag=row.lag, send_rate=row.arrive_rate, consume_rate=row.consume_rate)
    return {
        **_freshness(row, now_ms),
        "name": row.name,
        "topics": row.topics[:3],
        "more_topics": row.topic_count - len(row.topics[:3]),
        "is_ordered": row.is_ordered,
        "lag": row.lag,
        "lag_level": level_of(row.lag).value,
        "trend": None if trend is None else trend.value,
        "spark": spark(line),
        "oldest_s": _oldest_s(row, is_seen=is_seen),
        "members": row.members if is_seen else None,
        "blocked": row.blocked if is_seen else None,
        "arrive_rate": row.arrive_rate,
        "consume_rate": row.consume_rate,
        "in_flight": row.in_flight,
        "retry_lag": row.retry_lag,
        "dead_letters": row.dead_letters if is_seen else None,
        "drain_s": None if row.drain_ms is None else -(-row.drain_ms // 1000),
    }


def topic_row(
    row: TopicSummary,
    line: Line | None,
    readers: Sequence[tuple[str, int | None]],
    *,
    now_ms: int,
) -> TopicListRow:
    """Return a topic as the list shows it; `line` is its send rate of the last hour by minute."""
    return {
        **_freshness(row, now_ms),
        "name": row.name,
        "type": row.type,
        "cleanup": row.cleanup,
        "queue_count": row.queue_count,
        "held": row.held,
        "send_rate": row.send_rate,
        "spark": spark(line),
        "group_count": row.group_count,
        "readers": [
            {"group": group, "lag": lag, "lag_level": level_of(lag).value}
            for group, lag in readers[:READERS_SHOWN]
        ],
        "more_readers": max(0, len(readers) - READERS_SHOWN),
        "lag": row.lag,
        "lag_level": level_of(row.lag).value,
        "oldest_s": _oldest_s(row, is_seen=True),
        "blocked": row.blocked,
    }


def spark(line: Line | None) -> str:
    """Return the `d` of a small line, broken where a minute is unknown; empty without any."""
    if line is None:
        return ""
    highest = max((value for value in line if value is not None), default=0)
    return path(line, highest=highest, width=SPARK_WIDTH, height=SPARK_HEIGHT)


GROUP_COLUMNS = (
    "name", "sampled_at", "is_ordered", "topics", "lag", "oldest_age_ms", "members", "blocked",
    "arrive_rate", "consume_rate", "in_flight", "retry_lag", "dead_letters", "drain_ms",
)  # fmt: skip
TOPIC_COLUMNS = (
    "name", "sampled_at", "type", "cleanup", "queue_count", "sent", "held", "send_rate",
    "group_count", "lag", "lag_max", "oldest_age_ms", "blocked",
)  # fmt: skip


def as_csv(rows: Iterable[Summary], columns: Sequence[str]) -> str:
    """Return rows as a table; unknown is an empty cell, and no cell is a formula."""
    head = csv_row(columns)
    return head + "".join(csv_row(_cell(getattr(row, name)) for name in columns) for row in rows)


def _cell(value: object) -> object:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return rfc3339(value) if isinstance(value, datetime) else value


def _freshness(row: Summary, now_ms: int) -> Freshness:
    age_ms = abs(now_ms - ms_of(row.sampled_at))
    return {
        "sampled_at": rfc3339(row.sampled_at),
        "stale_s": age_ms // 1000 if age_ms > STALE_MS else None,
    }


def _oldest_s(row: GroupSummary | TopicSummary, *, is_seen: bool) -> int | None:
    if row.lag == 0:
        return 0
    return row.oldest_age_ms // 1000 if is_seen and row.oldest_age_ms is not None else None
