"""What groups have left to do, live from the engine, with the pace this process has seen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from apps.bridge import engine as bridge
from apps.engine.api import EngineControl
from apps.engine.clock import Clock
from apps.engine.grouptypes import QueueBacklog
from apps.engine.litetypes import LiteBacklog
from apps.engine.types import GroupProgress
from apps.groups import rates
from apps.groups.blocked import BlockedQueue, blocked_queues
from apps.groups.rates import Pace
from apps.groups.retrytopics import retry_lag


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """One queue of a group; `ready` messages are with nobody, None where that is not known."""

    row: QueueBacklog
    ready: int | None
    pace: Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class LitesState:
    """What a group has left to do in all lite topics of a parent."""

    row: LiteBacklog
    pace: Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """A group's queues by topic and number, its lite topics by parent, and all of it together.

    Its retry topic is among the queues; `retry_lag` is the part of `lag` that lies there, and
    `lite_lag` the part in lite topics. Where that is not known yet neither is `lag`.
    """

    queues: Sequence[QueueState]
    lites: Sequence[LitesState]
    lag: int | None
    retry_lag: int
    lite_lag: int | None
    oldest_age_ms: int | None
    pace: Pace


def backlog(group: str, *, clock: Clock) -> Backlog:
    """Return what a group has left to do; nothing for an unknown group."""
    rows, progress, in_lites = bridge.call(partial(_left_to_do, group=group))
    ready = {(row.topic, row.queue): row.ready for row in progress}
    now_ms = clock.monotonic_ms()
    queues = [
        QueueState(
            row=row,
            ready=ready.get((row.topic, row.queue)),
            pace=rates.recent.pace(row, now_ms=now_ms),
        )
        for row in rows
    ]
    lites = [
        LitesState(row=row, pace=rates.recent.pace_of_lites(row, now_ms=now_ms)) for row in in_lites
    ]
    lite_lag = lag_of_lites(in_lites)
    lag = None if lite_lag is None else sum(r.max_offset - r.committed for r in rows) + lite_lag
    ages = [row.oldest_age_ms for row in rows] + [row.oldest_age_ms for row in in_lites]
    return Backlog(
        queues=queues,
        lites=lites,
        lag=lag,
        retry_lag=retry_lag(rows),
        lite_lag=lite_lag,
        oldest_age_ms=max((age for age in ages if age is not None), default=None)
        if is_age_known(in_lites)
        else None,
        pace=rates.together(lag, [*(one.pace for one in queues), *(one.pace for one in lites)]),
    )


def lag_of_lites(rows: Iterable[LiteBacklog]) -> int | None:
    """Return how much is left to do in lite topics; None where it is not known of all."""
    lags = [row.lag for row in rows]
    return None if None in lags else sum(lag for lag in lags if lag is not None)


def is_age_known(rows: Iterable[LiteBacklog]) -> bool:
    """Say whether the oldest message of lite topics is known, wherever there is one."""
    return all(row.lag == 0 or row.oldest_age_ms is not None for row in rows)


def blocked(group: str, *, clock: Clock) -> list[BlockedQueue]:
    """Return the queues of a group that do not get on; none for an unknown group."""
    rows, members = bridge.call(lambda engine: (engine.backlog(group), engine.members(group)))
    return blocked_queues(rows, members, now_ms=clock.wall_ms())


def queue_progress(group: str) -> list[GroupProgress]:
    """Return a group's progress by topic and queue; empty for an unknown group."""
    progress = bridge.call(lambda engine: engine.group_progress(group))
    return sorted(progress, key=lambda row: (row.topic, row.queue))


def _left_to_do(
    engine: EngineControl, *, group: str
) -> tuple[list[QueueBacklog], list[GroupProgress], list[LiteBacklog]]:
    rows = sorted(engine.backlog(group), key=lambda row: (row.topic, row.queue))
    return rows, engine.group_progress(group), engine.lite_backlog(group)
