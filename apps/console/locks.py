"""Locks and backlog as a picture shows them: a row for each queue of a group, and what changed.

Pure but for the tail of the history, which asks the engine for the lines it has not seen. None is
unknown everywhere, and never written as 0.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypedDict

from apps.console import engine_words, levels
from apps.core import amounts
from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.core.phrases import Text, phrase, phrase_in, phrases
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
from apps.groups.blocked import BlockedBy, BlockedQueue, blocked_queues, hushed
from apps.groups.fences import fence_text
from apps.groups.rates import drain_ms
from apps.groups.selectors.locks import lock_id

LINES_MAX: Final = 50

Key = tuple[str, str, int]
Rates = Mapping[Key, tuple[float | None, float | None]]
"""Messages a second into and out of a group's queue."""
Refused = Mapping[Key, float | None]
"""Refusals of a lock a second; None where that is not known."""


class Hold(StrEnum):
    """How a queue of a group is held, in the words of the page."""

    HELD = "held"
    EXPIRED = "expired"
    ASSIGNED = "assigned"
    SHARED = "shared"
    FREE = "free"


HOLD_WORDS: Final[Mapping[Hold, Text]] = {
    Hold.HELD: phrase_in("lock", "held"),
    Hold.EXPIRED: phrase_in("lock", "expired"),
    Hold.ASSIGNED: phrase_in("lock", "assigned"),
    Hold.SHARED: phrase_in("lock", "shared"),
    Hold.FREE: phrase_in("lock", "free"),
}


class LockRow(TypedDict):
    """One queue of a group; ages and what is left in seconds, `epoch` as store epoch and number.

    `lock` is the name of its lock in addresses, and `seen_trouble` the trouble without what
    consumers said of it.
    """

    id: str
    lock: str
    group: str
    topic: str
    queue: int
    hold: str
    hold_said: Text
    owner: str | None
    epoch: str | None
    held_s: int | None
    expires_in_s: int | None
    lease_s: int | None
    refused_per_min: int | None
    lag: int
    lag_level: str
    lag_trend: str | None
    lag_trend_said: Text | None
    drain_s: int | None
    oldest_age_s: int | None
    in_flight: int
    committed: int
    state: str
    trouble: Text
    seen_trouble: Text


class LineRow(TypedDict):
    """One line of history, in words."""

    id: str
    at: str
    change: str
    change_said: Text
    what: str
    text: Text


class LockFigures(TypedDict):
    """How many rows are in which state. None is unknown."""

    held_count: int | None
    expired_count: int | None
    blocked_count: int | None
    blocked_level: str
    row_count: int | None


class LocksPicture(LockFigures):
    """All locks at one moment, by group, topic and queue. `refused_per_min` is over all of them.

    A picture that travelled has fewer `rows` than `row_count`. None is unknown.
    """

    refused_per_min: int | None
    rows: list[LockRow]
    lines: list[LineRow]


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
    refused: Refused = MappingProxyType({}),
    now_ms: int,
) -> LocksPicture:
    """Put what the engine said together, by group, topic and queue."""
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
            refused.get(key),
            blocked.get(key),
            now_ms=now_ms,
        )
        for one in backlog
        for key in [(one.group, one.topic, one.queue)]
    ]
    rows.sort(key=lambda row: (row["group"], row["topic"], row["queue"]))
    known = [one for one in refused.values() if one is not None]
    return {
        **figures_of(rows),
        "refused_per_min": _per_minute(sum(known)) if known else None,
        "rows": rows,
        "lines": lines,
    }


def figures_of(rows: Sequence[LockRow]) -> LockFigures:
    """Count rows by their state."""
    blocked_count = sum(bool(row["trouble"]) for row in rows)
    return {
        "held_count": sum(row["hold"] == Hold.HELD for row in rows),
        "expired_count": sum(row["hold"] == Hold.EXPIRED for row in rows),
        "blocked_count": blocked_count,
        "blocked_level": (levels.Level.HIGH if blocked_count else levels.Level.NONE).value,
        "row_count": len(rows),
    }


def line_of(line: LockTransition | Rebalance) -> LineRow:
    """Return a line of history in words."""
    text: Text
    if isinstance(line, Rebalance):
        change, what = engine_words.REBALANCE, line.group
        text = _rebalance_text(line)
    else:
        change, what = line.change.value, f"{line.group} · {line.topic}/{line.queue}"
        text = _lock_text(line)
    return {
        "id": str(line.number),
        "at": rfc3339(moment(line.at_ms)),
        "change": change.replace("_", " "),
        "change_said": engine_words.change(change),
        "what": what,
        "text": text,
    }


def _rebalance_text(line: Rebalance) -> Text:
    members = len(line.assignment)
    return phrase(
        "%(reason)s: %(members)s, %(moved)s, %(strategy)s, generation %(generation)s",
        reason=engine_words.reason(line.reason),
        members=phrases("%(count)s member", "%(count)s members", members),
        moved=phrases("%(count)s queue moved", "%(count)s queues moved", line.queues_moved),
        strategy=line.strategy,
        generation=fence_text(line.generation),
    )


def _lock_text(line: LockTransition) -> Text:
    epoch = fence_text(line.epoch)
    if line.change is LockChange.ACQUIRED:
        text = phrase("by %(owner)s, epoch %(epoch)s", owner=line.owner, epoch=epoch)
    elif line.change is LockChange.TAKEN_OVER:
        text = phrase(
            "by %(owner)s from %(previous)s, whose time was over, epoch %(epoch)s",
            owner=line.owner,
            previous=line.previous_owner,
            epoch=epoch,
        )
    elif line.change is LockChange.EXPIRED:
        text = phrase(
            "of %(previous)s, which did not renew it, epoch %(epoch)s",
            previous=line.previous_owner,
            epoch=epoch,
        )
    else:
        text = phrase(
            "from %(previous)s, epoch %(epoch)s", previous=line.previous_owner, epoch=epoch
        )
    if not line.reason:
        return text
    return phrase("%(what)s: %(reason)s", what=text, reason=engine_words.reason(line.reason))


def _row(
    one: QueueBacklog,
    lock: QueueLockState | None,
    hold: Hold,
    rates: tuple[float | None, float | None],
    refused: float | None,
    blocked: BlockedQueue | None,
    *,
    now_ms: int,
) -> LockRow:
    trouble = _trouble(blocked, now_ms)
    lag = one.max_offset - one.committed
    send_rate, consume_rate = rates
    trend = levels.trend_of(lag=lag, send_rate=send_rate, consume_rate=consume_rate)
    # What shrinks by less than the noise of batches may as well never be gone.
    is_shrinking = lag == 0 or trend is levels.Trend.FALLING
    left_ms = drain_ms(lag, in_per_s=send_rate, out_per_s=consume_rate) if is_shrinking else None
    return {
        "id": f"{one.group}/{one.topic}/{one.queue}",
        "lock": lock_id(one.group, one.topic, one.queue),
        "group": one.group,
        "topic": one.topic,
        "queue": one.queue,
        "hold": hold.value,
        "hold_said": HOLD_WORDS[hold],
        "owner": one.owner if lock is None else lock.owner,
        "epoch": None if lock is None else fence_text(lock.epoch),
        "held_s": None if lock is None else max(0, now_ms - lock.acquired_ms) // 1000,
        "expires_in_s": None if lock is None else _towards_zero(lock.expires_in_ms),
        "lease_s": None if lock is None or not lock.lease_ms else lock.lease_ms // 1000,
        "refused_per_min": None if refused is None else _per_minute(refused),
        "lag": lag,
        "lag_level": levels.level_of(lag).value,
        "lag_trend": None if trend is None else trend.value,
        "lag_trend_said": levels.TREND_WORDS[trend],
        "drain_s": None if left_ms is None else left_ms // 1000,
        "oldest_age_s": None if one.oldest_age_ms is None else one.oldest_age_ms // 1000,
        "in_flight": one.in_flight,
        "committed": one.committed,
        "state": "suspended" if one.suspension else "blocked" if trouble else "",
        "trouble": trouble,
        "seen_trouble": trouble if blocked is None else _trouble(hushed(blocked), now_ms),
    }


def _trouble(blocked: BlockedQueue | None, now_ms: int) -> Text:
    if blocked is None:
        return ""
    if blocked.reason is BlockedBy.SUSPENDED:
        return phrase(
            "Offset %(offset)s, %(detail)s", offset=blocked.queue_offset, detail=blocked.detail
        )
    text = phrase("Blocked at offset %(offset)s", offset=blocked.queue_offset)
    if blocked.reason is BlockedBy.HEAD_FAILS and blocked.attempts is not None:
        text = phrases(
            "%(what)s: tried %(count)s time without success",
            "%(what)s: tried %(count)s times without success",
            blocked.attempts,
            what=text,
        )
    if blocked.since_ms is not None:
        still = amounts.span(max(0, now_ms - blocked.since_ms) // 1000)
        text = phrase("%(what)s, nothing done for %(span)s", what=text, span=still)
    if not blocked.detail:
        return phrase("%(what)s.", what=text)
    return phrase("%(what)s. %(detail)s", what=text, detail=blocked.detail)


def _hold(one: QueueBacklog, lock: QueueLockState | None, *, is_read: bool) -> Hold:
    if lock is not None:
        return Hold.HELD if lock.expires_in_ms > 0 else Hold.EXPIRED
    if one.owner is not None:
        return Hold.ASSIGNED
    return Hold.SHARED if is_read else Hold.FREE


def _per_minute(per_s: float) -> int:
    # One refusal in the window of rates is not to look like none.
    return math.ceil(per_s * 60)


def _towards_zero(milliseconds: int) -> int:
    # A lease that ended half a second ago is not over by a whole second.
    return int(milliseconds / 1000)
