"""What groups have left to do, live from the engine, with the pace this process has seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from apps.bridge import engine as bridge
from apps.engine.api import EngineControl
from apps.engine.clock import Clock
from apps.engine.grouptypes import QueueBacklog
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
class Backlog:
    """A group's queues by topic and number, and all of them together.

    Its retry topic is among them; `retry_lag` is the part of `lag` that lies there.
    """

    queues: Sequence[QueueState]
    lag: int
    retry_lag: int
    oldest_age_ms: int | None
    pace: Pace


def backlog(group: str, *, clock: Clock) -> Backlog:
    """Return what a group has left to do; nothing for an unknown group."""
    rows, progress = bridge.call(partial(_left_to_do, group=group))
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
    lag = sum(row.max_offset - row.committed for row in rows)
    ages = [row.oldest_age_ms for row in rows if row.oldest_age_ms is not None]
    return Backlog(
        queues=queues,
        lag=lag,
        retry_lag=retry_lag(rows),
        oldest_age_ms=max(ages, default=None),
        pace=rates.together(lag, (queue.pace for queue in queues)),
    )


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
) -> tuple[list[QueueBacklog], list[GroupProgress]]:
    rows = sorted(engine.backlog(group), key=lambda row: (row.topic, row.queue))
    return rows, engine.group_progress(group)
