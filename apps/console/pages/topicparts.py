"""The parts of a topic's page that have addresses of their own. Knows the picture and selectors."""

from typing import Any

from django.http import HttpRequest
from rest_framework.exceptions import ValidationError

from apps.access import asking
from apps.console import messages as shown
from apps.console.board import Posted
from apps.console.levels import level_of
from apps.console.pages.common import Page, asking_page
from apps.console.pages.messages import found_page
from apps.console.pages.objects import no_topic, readers_of
from apps.console.refusals import value_refused, why
from apps.console.snapshot import GroupRow
from apps.console.topicrows import TopicRow, sum_known, sum_of_all
from apps.core.pagination import cursor_at, page_request
from apps.engine.errors import EngineError
from apps.engine.litetypes import LiteTopic
from apps.topics import lites

LITES_SHOWN = 100

Row = dict[str, Any]  # A picture has values of any type.


@asking_page
def newest(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show the newest messages of a topic, or those that a search finds in it."""
    return found_page(
        posted,
        request,
        template="console/messages/topic_messages.html",
        topic=name,
        here="messages",
        topic_name=name,
    )


@asking_page
def consumers(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show the groups that read a topic, and how far each is in each queue."""
    found = row_of(posted, name)
    if found is None:
        return no_topic(name)
    readers = readers_of(posted, name, asking.sight_of(request).group)
    groups = {row["name"]: row for row in posted.snapshot["groups"]}
    names = list(dict.fromkeys(str(reader["group"]) for reader in readers))
    return Page(
        template="console/messages/topic_consumers.html",
        values={
            "topic": found,
            "here": "consumers",
            "readers": readers,
            "groups": [_group(groups[one], name) for one in names],
        },
    )


@asking_page
def lite_topics(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show the lite topics of a topic, a page at a time."""
    found = row_of(posted, name)
    if found is None:
        return no_topic(name)
    after, trouble, rows, next_cursor, total = "", "", [], None, 0
    try:
        after = page_request(request.GET).after
        page = lites.lite_topics(name, after=after, topics_max=LITES_SHOWN)
        total = page.total
        rows = [_lite(one) for one in page.topics]
        next_cursor = cursor_at(page.topics[-1].name) if page.has_more else None
    except ValidationError as error:
        trouble = value_refused(error)[1]
    except EngineError as error:
        trouble = why(error)
    return Page(
        template="console/messages/topic_lites.html",
        values={
            "topic": found,
            "here": "lite-topics",
            "lites": rows,
            "total": total,
            "after": after,
            "next_cursor": next_cursor,
            "trouble": trouble,
        },
    )


def row_of(posted: Posted, name: str) -> TopicRow | None:
    """Return a topic of the picture; None where it has none of this name."""
    return next((row for row in posted.snapshot["topics"] if row["name"] == name), None)


def _lite(one: LiteTopic) -> Row:
    return {
        "name": one.name,
        "topic": one.topic,
        "held": one.max_offset - one.min_offset,
        "sent": one.max_offset,
        "newest_at": shown.stamp(one.last_ms),
        "subscribers": one.subscribers,
    }


def _group(group: GroupRow, topic: str) -> Row:
    """Return a group in sums over the queues of one topic."""
    rows = [one for one in group["queues"] if one["topic"] == topic]
    lag = sum_of_all(one["lag"] for one in rows)
    return {
        "name": group["name"],
        "queue_count": sum(one["queue"] is not None for one in rows),
        "lag": lag,
        "in_flight": sum_of_all(one["in_flight"] for one in rows),
        "consume_rate": sum_known(one["consume_rate"] for one in rows),
        "member_count": len(group["members"]),
        "lag_level": level_of(lag).value,
    }
