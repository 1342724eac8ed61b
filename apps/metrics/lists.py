"""Topics and groups as lists read them: searched, filtered, sorted and paged in SQL.

Reads summaries and samples, a fixed number of queries however many rows there are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Generic, TypeVar

from django.db.models import F, Max, QuerySet

from apps.core.moments import moment, ms_of
from apps.metrics.models import GroupSample, GroupSummary, TopicSample, TopicSummary
from apps.metrics.models.summaries import Summary
from apps.metrics.resolutions import FINE, HOUR, MINUTE

ROWS_PER_PAGE = 50
# A file holds more than a page, and not everything there could be.
FILE_ROWS_MAX = 10_000
READERS_SHOWN = 5

Row = TypeVar("Row", bound=Summary)

# What lists are sorted by, and whether the largest comes first. Unknown values come last.
GROUP_SORTS: Mapping[str, bool] = MappingProxyType(
    {
        "lag": True, "name": False, "oldest_age_ms": True, "members": True, "blocked": True,
        "in_flight": True, "retry_lag": True, "dead_letters": True, "consume_rate": True,
        "arrive_rate": True, "drain_ms": True,
    }
)  # fmt: skip
TOPIC_SORTS: Mapping[str, bool] = MappingProxyType(
    {
        "name": False, "send_rate": True, "held": True, "lag": True, "oldest_age_ms": True,
        "blocked": True, "group_count": True, "queue_count": True,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """What is asked of a list. `sort` is one of its columns; `page` counts from 1."""

    search: str = ""
    type: str = ""
    only_lag: bool = False
    only_blocked: bool = False
    sort: str
    page: int = 1
    # Whether whoever asks may find a name in lists; None shows all.
    is_listed: Callable[[str], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage(Generic[Row]):
    """Rows of one page, and how many there are in all; `page` may be the last instead."""

    rows: Sequence[Row]
    total: int
    page: int

    @property
    def pages(self) -> int:
        """Return how many pages there are, one at least."""
        return max(1, -(-self.total // ROWS_PER_PAGE))


def groups(query: ListQuery) -> QuerySet[GroupSummary]:
    """Return the groups that are asked for, in order; `type` is `ordered` or `concurrent`."""
    found = _filtered(GroupSummary.objects.all(), query)
    if query.type:
        found = found.filter(is_ordered=query.type == "ordered")
    return _sorted(found, query.sort, GROUP_SORTS)


def topics(query: ListQuery) -> QuerySet[TopicSummary]:
    """Return the topics that are asked for, in order; `type` is what messages they take."""
    found = _filtered(TopicSummary.objects.all(), query)
    if query.type:
        found = found.filter(type=query.type)
    return _sorted(found, query.sort, TOPIC_SORTS)


def page_of(found: QuerySet[Row], page: int) -> ListPage[Row]:
    """Return one page; one behind the last is the last."""
    total = found.count()
    last = max(1, -(-total // ROWS_PER_PAGE))
    page = min(max(1, page), last)
    first = (page - 1) * ROWS_PER_PAGE
    return ListPage(rows=list(found[first : first + ROWS_PER_PAGE]), total=total, page=page)


def lag_of_last_hour(names: Sequence[str], *, now_ms: int) -> Mapping[str, list[float | None]]:
    """Return the highest lag of each minute of the last hour, by group; None where unknown."""
    rows = (
        GroupSample.objects.filter(
            resolution_s=MINUTE.seconds,
            group__in=names,
            at__gte=moment(now_ms - HOUR.ms),
            at__lt=moment(now_ms),
        )
        .order_by()
        .values_list("group", "at", "lag_max")
    )
    return _by_minute(rows, now_ms)


def sends_of_last_hour(names: Sequence[str], *, now_ms: int) -> Mapping[str, list[float | None]]:
    """Return the mean send rate of each minute of the last hour, by topic."""
    rows = (
        TopicSample.objects.filter(
            resolution_s=MINUTE.seconds,
            topic__in=names,
            at__gte=moment(now_ms - HOUR.ms),
            at__lt=moment(now_ms),
        )
        .order_by()
        .values_list("topic", "at", "send_rate")
    )
    return _by_minute(rows, now_ms)


def readers_of(rows: Sequence[TopicSummary]) -> Mapping[str, list[tuple[str, int | None]]]:
    """Return the groups that read each of the topics with their lag, most first."""
    slots = {moment(FINE.slot_ms(ms_of(row.sampled_at))) for row in rows}
    found: dict[str, list[tuple[str, int | None]]] = {}
    samples = GroupSample.objects.filter(
        resolution_s=FINE.seconds, at__in=slots, topic__in=[row.name for row in rows]
    )
    ordered = samples.order_by(F("lag").desc(nulls_last=True), "group")
    for topic, group, lag in ordered.values_list("topic", "group", "lag"):
        found.setdefault(topic, []).append((group, lag))
    return found


def sampled_at() -> datetime | None:
    """Return when the newest summary is of; None before the first sample."""
    newest: datetime | None = GroupSummary.objects.aggregate(newest=Max("sampled_at"))["newest"]
    other: datetime | None = TopicSummary.objects.aggregate(newest=Max("sampled_at"))["newest"]
    return max((at for at in (newest, other) if at is not None), default=None)


def _filtered(found: QuerySet[Row], query: ListQuery) -> QuerySet[Row]:
    if query.search:
        found = found.filter(name__icontains=query.search)
    if query.only_lag:
        found = found.filter(lag__gt=0)
    if query.only_blocked:
        found = found.filter(blocked__gt=0)
    if query.is_listed is None:
        return found
    # All names are one more query, however many; whole rows are read for one page only.
    names = list(found.order_by().values_list("name", flat=True))
    listed = [name for name in names if query.is_listed(name)]
    return found if len(listed) == len(names) else found.filter(name__in=listed)


def _sorted(found: QuerySet[Row], sort: str, sorts: Mapping[str, bool]) -> QuerySet[Row]:
    assert sort in sorts, sort
    column = F(sort)
    first = column.desc(nulls_last=True) if sorts[sort] else column.asc(nulls_last=True)
    return found.order_by(first, "name")


def _by_minute(
    rows: QuerySet[GroupSample, tuple[str, datetime, float | None]]
    | QuerySet[TopicSample, tuple[str, datetime, float | None]],
    now_ms: int,
) -> Mapping[str, list[float | None]]:
    """Add rows up by name and minute; a minute is known where one of its rows is."""
    minutes = HOUR.ms // MINUTE.ms
    begin_ms = MINUTE.slot_ms(now_ms) - HOUR.ms
    found: dict[str, list[float | None]] = {}
    for name, at, value in rows:
        place = (ms_of(at) - begin_ms) // MINUTE.ms
        if value is None or not 0 <= place < minutes:
            continue
        line = found.setdefault(name, [None] * minutes)
        line[place] = value + (line[place] or 0)
    return found
