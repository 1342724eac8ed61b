"""The pages of a group: backlog, members, locks, retries, diagnosis, what-if. Offsets are apart.

Each is a tab with an address of its own. Knows the picture, and asks what a picture does not hold.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.access.asking import sight_of
from apps.access.policy import group as resource
from apps.bridge import engine as bridge
from apps.console import deathwatch, engine_words, levels
from apps.console.board import Posted
from apps.console.diagnosis import Finding, Seen, findings
from apps.console.pages.common import Page, asking_page
from apps.console.pages.lock import drawn
from apps.console.refusals import why
from apps.console.retries import RetriesShown, retries_shown
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.core.phrases import sentence
from apps.deadletters import selectors as letters
from apps.engine.api import EngineControl
from apps.engine.caretypes import WhatIf
from apps.engine.clock import SystemClock
from apps.engine.errors import EngineError, InvalidArgument
from apps.engine.limits import GROUP_MEMBERS_MAX
from apps.engine.types import GroupSpec, Strategy
from apps.groups import selectors
from apps.groups.blocked import blocked_queues, hushed
from apps.groups.rates import Pace
from apps.groups.selectors import LitesState, QueueState, lock_id

# Cells of a grid that a person can still look through.
GRID_QUEUES_MAX = 512
REBALANCES_SHOWN = 20
LITES_SHOWN = 100
LITE_NAMES_SHOWN = 5
REBALANCES_MAX = 500


def group_row(posted: Posted, name: str) -> Mapping[str, Any] | None:
    """Return what the picture has of a group; None for one that it does not know."""
    return next((row for row in posted.snapshot["groups"] if row["name"] == name), None)


def no_group(name: str) -> Page:
    """Return the page of a group that nobody has heard of."""
    return Page(template="console/no_group.html", values={"name": name}, status=404)


@asking_page
def group(posted: Posted, _request: HttpRequest, *, name: str) -> Page:
    """Show how far a group is in each queue, and when it will be done."""
    found = group_row(posted, name)
    if found is None:
        return no_group(name)
    rows, lites, trouble = _backlog(name)
    values = {
        "group": found,
        "here": "backlog",
        "backlog": rows,
        "backlog_of_lites": lites,
        "backlog_trouble": trouble,
    }
    return Page(template="console/group.html", values=values)


@asking_page
def members(posted: Posted, _request: HttpRequest, *, name: str) -> Page:
    """Show who is in a group, and who reads which queue."""
    found = group_row(posted, name)
    if found is None:
        return no_group(name)
    grid, trouble = _grid(name)
    values = {
        "group": found,
        "here": "members",
        "grid": grid,
        "grid_trouble": trouble,
        "lites": _lites(name),
        "lites_max": LITES_SHOWN,
        **_rebalanced(name),
    }
    return Page(template="console/groups/members.html", values=values)


@asking_page
def group_locks(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show who had the locks of a group's queues when, and which queues do not get on."""
    found = group_row(posted, name)
    if found is None:
        return no_group(name)
    rows = [row for row in posted.snapshot["locks"]["rows"] if row["group"] == name]
    values = {
        "group": found,
        "here": "locks",
        "rows": [{**row, "lock": lock_id(name, row["topic"], row["queue"])} for row in rows],
        **drawn(request, name),
    }
    return Page(template="console/groups/locks.html", values=values)


@asking_page
def retries(posted: Posted, _request: HttpRequest, *, name: str) -> Page:
    """Show what is to come again to a group, and what died."""
    found = group_row(posted, name)
    if found is None:
        return no_group(name)
    counted, trouble = _retries(name)
    return Page(
        template="console/groups/retries.html",
        values={
            "group": found,
            "here": "retries",
            "retries": counted,
            "retries_trouble": trouble,
            "letters": deathwatch.of_group(posted.snapshot["deaths"], name),
            "deaths": posted.snapshot["deaths"],
        },
    )


@asking_page
def diagnosis(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show what may be wrong with a group."""
    found = group_row(posted, name)
    if found is None:
        return no_group(name)
    answers: Sequence[Finding] = ()
    trouble = ""
    base = request.path.removesuffix("diagnosis/")
    died = deathwatch.of_group(posted.snapshot["deaths"], name)
    try:
        peeks = sight_of(request).peeks(resource(name))
        waiting = None if died is None else died["waiting"]
        answers = findings(_seen(name, base, waiting, peeks=peeks))
    except EngineError as error:
        trouble = why(error)
    values = {"group": found, "here": "diagnosis", "findings": answers, "trouble": trouble}
    return Page(template="console/groups/diagnosis.html", values=values)


@asking_page
def what_if(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show who would read what with another strategy or other members."""
    found = group_row(posted, name)
    if found is None:
        return no_group(name)
    strategy, count = request.GET.get("strategy", ""), request.GET.get("members", "")
    answer, trouble = None, ""
    try:
        answer = _imagined(name, strategy, count)
    except (EngineError, ProblemError) as error:
        trouble = why(error)
    values = {
        "group": found,
        "here": "what-if",
        "strategies": [one.value for one in Strategy],
        "strategy": strategy,
        "members": count,
        "members_max": GROUP_MEMBERS_MAX,
        "answer": answer,
        "trouble": trouble,
    }
    return Page(template="console/groups/what_if.html", values=values)


def _retries(name: str) -> tuple[RetriesShown | None, str]:
    try:
        return retries_shown(letters.retries(name)), ""
    except EngineError as error:
        return None, _("The retries cannot be counted: %(why)s.") % {"why": why(error)}


_Row = dict[str, object]


def _backlog(name: str) -> tuple[list[_Row], list[_Row], str]:
    """Return what is left to do by queue, and by parent of lite topics; or why nobody can say."""
    try:
        found = selectors.backlog(name, clock=SystemClock())
    except EngineError as error:
        return [], [], why(error)
    queues = [_queue_row(queue) for queue in found.queues]
    return queues, [_parent_row(lites) for lites in found.lites], ""


def _queue_row(queue: QueueState) -> _Row:
    row = queue.row
    return {
        "topic": row.topic,
        "queue": row.queue,
        "lock": lock_id(row.group, row.topic, row.queue),
        "owner": row.owner,
        "in_flight": row.in_flight,
        "ready": queue.ready,
        "suspension": row.suspension,
        **_left(row.max_offset - row.committed, row.oldest_age_ms, queue.pace),
    }


def _parent_row(lites: LitesState) -> _Row:
    row = lites.row
    return {
        "topic": row.topic,
        "behind": row.topics_behind,
        "ready": row.ready,
        **_left(row.lag, row.oldest_age_ms, lites.pace),
    }


def _left(lag: int | None, oldest_age_ms: int | None, pace: Pace) -> _Row:
    trend = levels.trend_of(lag=lag, send_rate=pace.in_per_s, consume_rate=pace.out_per_s)
    return {
        "lag": lag,
        "lag_level": levels.level_of(lag).value,
        "trend": None if trend is None else trend.value,
        "trend_said": levels.TREND_WORDS[trend],
        "in_per_s": pace.in_per_s,
        "out_per_s": pace.out_per_s,
        "drain_s": None if pace.drain_ms is None else pace.drain_ms // 1000,
        "oldest_age_s": None if oldest_age_ms is None else oldest_age_ms // 1000,
    }


def _grid(name: str) -> tuple[dict[str, object] | None, str]:
    """Return who reads which queue, a row a client and a column a queue."""
    try:
        members, rows = bridge.call(lambda engine: (engine.members(name), engine.backlog(name)))
    except EngineError as error:
        return None, why(error)
    suspended = {(row.topic, row.queue) for row in rows if row.suspension is not None}
    places = sorted(
        {
            (topic, number)
            for member in members
            for topic, numbers in member.assignment.items()
            for number in numbers
        }
    )
    shown = places[:GRID_QUEUES_MAX]
    return {
        "places": [(topic, number, (topic, number) in suspended) for topic, number in shown],
        "is_cut": len(shown) < len(places),
        "rows": [
            {
                "client_id": member.client_id,
                "count": sum(map(len, member.assignment.values())),
                "cells": [number in member.assignment.get(topic, ()) for topic, number in shown],
            }
            for member in members
        ],
    }, ""


def _lites(name: str) -> list[dict[str, object]]:
    """Return clients and the lite topics they are subscribed to; none where nobody can say."""
    try:
        found = selectors.lite_subscriptions(name)
    except EngineError:
        return []
    return [
        {
            "client_id": one.client_id,
            "topic": one.topic,
            "names": one.names[:LITE_NAMES_SHOWN],
            "others": one.count - min(len(one.names), LITE_NAMES_SHOWN),
            "count": one.count,
            "lag": one.lag,
            "seen_at": rfc3339(moment(one.seen_ms)),
        }
        for one in found[:LITES_SHOWN]
    ]


def _rebalanced(name: str) -> dict[str, object]:
    """Return the newest assignments, and how many queues moved in the last hour."""
    rows = selectors.rebalances(name, before=None, lines_max=REBALANCES_MAX)
    hour_ago = moment(SystemClock().wall_ms()) - timedelta(hours=1)
    recent = [row for row in rows if row.at >= hour_ago]
    return {
        "rebalances": [
            {
                "at": rfc3339(row.at),
                "reason": engine_words.reason(row.reason),
                "strategy": row.strategy,
                "queues_moved": row.queues_moved,
                "member_count": len(row.assignment),
            }
            for row in rows[:REBALANCES_SHOWN]
        ],
        "rebalances_max": REBALANCES_SHOWN,
        "moved_count": sum(row.queues_moved for row in recent),
        "rebalance_count": len(recent),
        # Older ones of the hour are beyond what is looked at.
        "is_more": len(recent) == REBALANCES_MAX,
    }


def _seen(name: str, base: str, dead_letters: int | None, *, peeks: bool) -> Seen:
    clock = SystemClock()
    now_ms = clock.wall_ms()

    def asked(engine: EngineControl) -> Seen:
        rows, members = engine.backlog(name), engine.members(name)
        blocked = blocked_queues(rows, members, now_ms=now_ms)
        return Seen(
            spec=engine.catalog.groups.get(name, GroupSpec(name=name)),
            members=members,
            clients=engine.clients(name),
            backlog=rows,
            lites=engine.lite_backlog(name),
            blocked=blocked if peeks else [hushed(queue) for queue in blocked],
            locks=engine.queue_locks(name),
            in_per_s=pace.in_per_s,
            out_per_s=pace.out_per_s,
            dead_letters=dead_letters,
            now_ms=now_ms,
            base=base,
        )

    pace = selectors.backlog(name, clock=clock).pace
    return bridge.call(asked)


def _imagined(name: str, strategy: str, count: str) -> dict[str, object]:
    """Return a sharing out in words; raise InvalidArgument for what is no strategy or count."""
    if strategy and strategy not in set(Strategy):
        raise InvalidArgument(sentence("there is no such strategy"))
    is_count = count.isascii() and count.isdigit() and len(count) <= 6
    if count and not (is_count and int(count) <= GROUP_MEMBERS_MAX):
        text = sentence("members are 0 to %(highest)s", highest=GROUP_MEMBERS_MAX)
        raise InvalidArgument(text)
    found = selectors.what_if(
        group=name,
        strategy=Strategy(strategy) if strategy else None,
        member_count=int(count) if count else None,
    )
    names = sorted({*found.assignment, *found.before})
    return {
        "strategy": found.strategy.value,
        "queues_moved": found.queues_moved,
        "idle_count": len(found.idle),
        "rows": [_what_if_row(found, client_id) for client_id in names],
        "at": rfc3339(moment(SystemClock().wall_ms())),
    }


def _what_if_row(found: WhatIf, client_id: str) -> dict[str, object]:
    state = "there"
    if client_id in found.added:
        state = "added"
    elif client_id not in found.assignment:
        state = "gone"
    return {
        "client_id": client_id,
        "state": state,
        "before": _queues(found.before.get(client_id, {})),
        "after": _queues(found.assignment.get(client_id, {})),
    }


def _queues(topics: Mapping[str, tuple[int, ...]]) -> str:
    return "; ".join(
        f"{topic} {', '.join(map(str, numbers))}"
        for topic, numbers in sorted(topics.items())
        if numbers
    )
