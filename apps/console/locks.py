"""Locks and backlog as a picture shows them: a row for each queue of a group, and what changed.

Pure but for the tail of the history, which asks the engine for the lines it has not seen. None is
unknown everywhere, and never written as 0.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypedDict

from apps.console import levels
from apps.console.templatetags import mq
from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.engine.api import EngineControl
from apps.engine.grouptypes import (
    LockChange,
    LockTransition,
    MemberState,
    QueueBacklog,
    QueueLockState,
    Rebalance,
)
from apps.engine.types import ClientSeen
from apps.groups.blocked import BlockedBy, BlockedQueue, blocked_queues
from apps.groups.rates import drain_ms

ROWS_MAX: Final = 500
LINES_MAX: Final = 50

Key = tuple[str, str, int]
Rates = Mapping[Key, tuple[float | None, float | None]]
"""Messages a second into and out of a group's queue."""


class Hold(StrEnum):
    """How a queue of a group is held, in the words of the page."""

    HELD = "held"
    EXPIRED = "expired"
    ASSIGNED = "assigned"
    SHARED = "shared"
    FREE = "free"


class LockRow(TypedDict):
    """One queue of a group; ages and what is left in seconds, `epoch` as store epoch and number."""

    id: str
    group: str
    topic: str
    queue: int
    hold: str
    owner: str | None
    epoch: str | None
    held_s: int | None
    expires_in_s: int | None
    lag: int
    lag_level: str
    lag_trend: str | None
    drain_s: int | None
    oldest_age_s: int | None
    in_flight: int
    committed: int
    state: str
    trouble: str


class LineRow(TypedDict):
    """One line of history, in words."""

    id: str
    at: str
    change: str
    what: str
    text: str


class LocksPicture(TypedDict):
    """The locks page at one moment; `note` says what `rows` leaves out."""

    held_count: int
    expired_count: int
    blocked_count: int
    blocked_level: str
    row_count: int
    rows: list[LockRow]
    lines: list[LineRow]
    note: str


class HistoryTail:
    """The newest lines of history, the newest first."""

    def __init__(self, *, lines_max: int = LINES_MAX) -> None:
        """Know no line yet."""
        self._last = 0
        self._lines: deque[LineRow] = deque(maxlen=lines_max)

    def follow(self, engine: EngineControl) -> list[LineRow]:
        """Take up the lines that are new, and return those that are kept."""
        while True:
            found = engine.history(self._last)
            lines: list[LockTransition | Rebalance] = [*found.transitions, *found.rebalances]
            for line in sorted(lines, key=lambda line: line.number):
                self._lines.appendleft(line_of(line))
            if found.last <= self._last or not lines:
                self._last = max(self._last, found.last)
                return list(self._lines)
            self._last = found.last


def picture_of(
    backlog: Sequence[QueueBacklog],
    members: Iterable[MemberState],
    clients: Iterable[ClientSeen],
    locks: Iterable[QueueLockState],
    lines: list[LineRow],
    rates: Rates,
    *,
    now_ms: int,
) -> LocksPicture:
    """Put what the engine said together: blocked queues first, then by group, topic and queue."""
    held = {(lock.group, lock.topic, lock.queue): lock for lock in locks}
    blocked = {
        (one.group, one.topic, one.queue): one
        for one in blocked_queues(backlog, members, now_ms=now_ms)
    }
    read = {client.group for client in clients}
    rows = [
        _row(
            one,
            held.get(key),
            _hold(one, held.get(key), is_read=one.group in read),
            rates.get(key, (None, None)),
            _trouble(blocked.get(key), now_ms),
            now_ms=now_ms,
        )
        for one in backlog
        for key in [(one.group, one.topic, one.queue)]
    ]
    rows.sort(key=lambda row: not row["trouble"])
    is_cut = len(rows) > ROWS_MAX
    blocked_count = sum(bool(row["trouble"]) for row in rows)
    return {
        "held_count": sum(row["hold"] == Hold.HELD for row in rows),
        "expired_count": sum(row["hold"] == Hold.EXPIRED for row in rows),
        "blocked_count": blocked_count,
        "blocked_level": (levels.Level.HIGH if blocked_count else levels.Level.NONE).value,
        "row_count": len(rows),
        "rows": rows[:ROWS_MAX],
        "lines": lines,
        "note": f"Only the first {ROWS_MAX} queues are listed, blocked ones before others."
        if is_cut
        else "",
    }


def fence_text(fence: int) -> str:
    """Return a fence as the store's epoch and the number within it, as in `3.17`."""
    return f"{fence >> 32}.{fence & 0xFFFF_FFFF}"


def line_of(line: LockTransition | Rebalance) -> LineRow:
    """Return a line of history in words."""
    if isinstance(line, Rebalance):
        members = len(line.assignment)
        change, what = "rebalance", line.group
        text = (
            f"{line.reason}: {members} {'member' if members == 1 else 'members'}, "
            f"{line.queues_moved} {'queue' if line.queues_moved == 1 else 'queues'} moved, "
            f"{line.strategy}, generation {fence_text(line.generation)}"
        )
    else:
        change, what = line.change.value, f"{line.group} · {line.topic}/{line.queue}"
        text = _lock_text(line)
    return {
        "id": str(line.number),
        "at": rfc3339(moment(line.at_ms)),
        "change": change.replace("_", " "),
        "what": what,
        "text": text,
    }


def _lock_text(line: LockTransition) -> str:
    epoch = fence_text(line.epoch)
    if line.change is LockChange.ACQUIRED:
        text = f"by {line.owner}, epoch {epoch}"
    elif line.change is LockChange.TAKEN_OVER:
        text = f"by {line.owner} from {line.previous_owner}, whose time was over, epoch {epoch}"
    else:
        text = f"from {line.previous_owner}, epoch {epoch}"
    return f"{text}: {line.reason}" if line.reason else text


def _row(
    one: QueueBacklog,
    lock: QueueLockState | None,
    hold: Hold,
    rates: tuple[float | None, float | None],
    trouble: str,
    *,
    now_ms: int,
) -> LockRow:
    lag = one.max_offset - one.committed
    send_rate, consume_rate = rates
    trend = levels.trend_of(lag=lag, send_rate=send_rate, consume_rate=consume_rate)
    # What shrinks by less than the noise of batches may as well never be gone.
    is_shrinking = lag == 0 or trend is levels.Trend.FALLING
    left_ms = drain_ms(lag, in_per_s=send_rate, out_per_s=consume_rate) if is_shrinking else None
    return {
        "id": f"{one.group}/{one.topic}/{one.queue}",
        "group": one.group,
        "topic": one.topic,
        "queue": one.queue,
        "hold": hold.value,
        "owner": one.owner if lock is None else lock.owner,
        "epoch": None if lock is None else fence_text(lock.epoch),
        "held_s": None if lock is None else max(0, now_ms - lock.acquired_ms) // 1000,
        "expires_in_s": None if lock is None else _towards_zero(lock.expires_in_ms),
        "lag": lag,
        "lag_level": levels.level_of(lag).value,
        "lag_trend": None if trend is None else trend.value,
        "drain_s": None if left_ms is None else left_ms // 1000,
        "oldest_age_s": None if one.oldest_age_ms is None else one.oldest_age_ms // 1000,
        "in_flight": one.in_flight,
        "committed": one.committed,
        "state": "suspended" if one.suspension else "blocked" if trouble else "",
        "trouble": trouble,
    }


def _trouble(blocked: BlockedQueue | None, now_ms: int) -> str:
    if blocked is None:
        return ""
    if blocked.reason is BlockedBy.SUSPENDED:
        return f"Offset {blocked.queue_offset}, {blocked.detail}"
    said = f"Blocked at offset {blocked.queue_offset}"
    if blocked.reason is BlockedBy.HEAD_FAILS:
        said += f": tried {blocked.attempts} times without success"
    if blocked.since_ms is not None:
        said += f", nothing done for {mq.span(max(0, now_ms - blocked.since_ms) // 1000)}"
    return f"{said}. {blocked.detail}".rstrip()


def _hold(one: QueueBacklog, lock: QueueLockState | None, *, is_read: bool) -> Hold:
    if lock is not None:
        return Hold.HELD if lock.expires_in_ms > 0 else Hold.EXPIRED
    if one.owner is not None:
        return Hold.ASSIGNED
    return Hold.SHARED if is_read else Hold.FREE


def _towards_zero(milliseconds: int) -> int:
    # A lease that ended half a second ago is not over by a whole second.
    return int(milliseconds / 1000)
