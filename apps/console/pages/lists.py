"""The lists of topics and groups. Know summaries and samples; ask no engine and no log."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict

from apps.access.asking import is_on, sight_of
from apps.access.policy import Kind
from apps.console import lists as shown
from apps.console.pages.common import Page
from apps.console.pages.rows import rows_page
from apps.console.pages.searching import given
from apps.core import attachments
from apps.core.pagination import rfc3339
from apps.engine.clock import SystemClock
from apps.metrics import lists
from apps.metrics.lists import GROUP_SORTS, TOPIC_SORTS, ListPage, ListQuery
from apps.metrics.models import GroupSummary, TopicSummary
from apps.metrics.models.summaries import Summary
from apps.topics.models import Type

SEARCH_CHARACTERS_MAX = 200
_GROUP_TYPES = ("ordered", "concurrent")
_PAGE_MAX = 100_000
_FIELDS = ("q", "type", "lag", "blocked", "sort")


@rows_page
def groups(request: HttpRequest) -> Page:
    """Show the groups that are asked for and may be listed, with how they stand."""
    now_ms = SystemClock().wall_ms()
    entered = given(request.GET)
    query = _group_query(request, entered)
    page = lists.page_of(lists.groups(query), query.page)
    _hide_topics(request, page.rows)
    lines = lists.lag_of_last_hour([row.name for row in page.rows], now_ms=now_ms)
    rows = [shown.group_row(row, lines.get(row.name), now_ms=now_ms) for row in page.rows]
    return Page(
        template="console/lists/groups.html",
        values={
            "rows": rows,
            "types": _GROUP_TYPES,
            **_values(entered, query, page),
        },
    )


@rows_page
def groups_csv(request: HttpRequest) -> HttpResponse:
    """Give the groups that are asked for and may be listed as a file."""
    query = _group_query(request, given(request.GET))
    rows = list(lists.groups(query)[: lists.FILE_ROWS_MAX + 1])
    _hide_topics(request, rows)
    return _file("groups", rows, shown.GROUP_COLUMNS)


@rows_page
def topics(request: HttpRequest) -> Page:
    """Show the topics that are asked for and may be listed, with such groups of theirs."""
    now_ms = SystemClock().wall_ms()
    entered = given(request.GET)
    query = _topic_query(request, entered)
    page = lists.page_of(lists.topics(query), query.page)
    lines = lists.sends_of_last_hour([row.name for row in page.rows], now_ms=now_ms)
    is_listed = sight_of(request).group
    readers = {
        name: [reader for reader in found if is_listed(reader[0])]
        for name, found in lists.readers_of(page.rows).items()
    }
    rows = [
        shown.topic_row(row, lines.get(row.name), readers.get(row.name, ()), now_ms=now_ms)
        for row in page.rows
    ]
    return Page(
        template="console/lists/topics.html",
        values={"rows": rows, "types": Type.values, **_values(entered, query, page)},
    )


@rows_page
def topics_csv(request: HttpRequest) -> HttpResponse:
    """Give the topics that are asked for and may be listed as a file."""
    query = _topic_query(request, given(request.GET))
    return _file(
        "topics", list(lists.topics(query)[: lists.FILE_ROWS_MAX + 1]), shown.TOPIC_COLUMNS
    )


def _group_query(request: HttpRequest, entered: QueryDict) -> ListQuery:
    query = _query(entered, sorts=GROUP_SORTS, types=_GROUP_TYPES, sort="lag")
    return _for(request, Kind.GROUP, query)


def _topic_query(request: HttpRequest, entered: QueryDict) -> ListQuery:
    query = _query(entered, sorts=TOPIC_SORTS, types=Type.values, sort="name")
    return _for(request, Kind.TOPIC, query)


def _for(request: HttpRequest, kind: Kind, query: ListQuery) -> ListQuery:
    if not is_on():
        return query
    sight = sight_of(request)
    return replace(query, is_listed=sight.topic if kind is Kind.TOPIC else sight.group)


def _hide_topics(request: HttpRequest, rows: Sequence[GroupSummary]) -> None:
    """Leave out of the groups the topics that whoever looks may not list; nothing is saved."""
    is_listed = sight_of(request).topic
    for row in rows:
        listed = [name for name in row.topics if is_listed(name)]
        row.topic_count -= len(row.topics) - len(listed)
        row.topics = listed


def _query(
    entered: QueryDict, *, sorts: Mapping[str, bool], types: Sequence[str], sort: str
) -> ListQuery:
    """Read what is asked for; what makes no sense asks for nothing."""
    page = entered.get("page", "1")
    wanted, kind = entered.get("sort", sort), entered.get("type", "")
    is_page = page.isascii() and page.isdigit() and len(page) <= 6
    return ListQuery(
        # PostgreSQL has no way to hold a zero character in a text.
        search=entered.get("q", "").replace("\0", "")[:SEARCH_CHARACTERS_MAX],
        type=kind if kind in types else "",
        only_lag="lag" in entered,
        only_blocked="blocked" in entered,
        sort=wanted if wanted in sorts else sort,
        page=min(_PAGE_MAX, int(page)) if is_page else 1,
    )


def _values(
    entered: QueryDict, query: ListQuery, page: ListPage[GroupSummary] | ListPage[TopicSummary]
) -> Mapping[str, object]:
    pairs = [(name, entered[name]) for name in _FIELDS if name in entered]
    filters = [pair for pair in pairs if pair[0] != "sort"]
    sampled_at = lists.sampled_at()
    return {
        "entered": dict(pairs),
        "is_filtered": bool(filters),
        "sort": query.sort,
        "total": page.total,
        "page": page.page,
        "pages": page.pages,
        "search": urlencode(pairs),
        "sort_query": urlencode(filters),
        "before_query": urlencode([*pairs, ("page", page.page - 1)]) if page.page > 1 else "",
        "next_query": urlencode([*pairs, ("page", page.page + 1)])
        if page.page < page.pages
        else "",
        "sampled_at": None if sampled_at is None else rfc3339(sampled_at),
    }


def _file(name: str, rows: Sequence[Summary], columns: Sequence[str]) -> HttpResponse:
    answer = HttpResponse(
        shown.as_csv(rows[: lists.FILE_ROWS_MAX], columns),
        content_type="text/csv; charset=utf-8",
        headers=attachments.headers(f"{name}.csv"),
    )
    if len(rows) > lists.FILE_ROWS_MAX:
        answer["X-Truncated"] = str(lists.FILE_ROWS_MAX)
    return answer
