"""One picture of engine and clockwork. Knows the engine's verbs and rates; no clock, socket, page.

None is unknown everywhere, and never written as 0.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypedDict

from apps.console import delays, levels, transactions
from apps.console.clockwork import ClockworkPicture
from apps.console.deathwatch import DeathsPicture
from apps.console.delays import DelaysPicture
from apps.console.jobwatch import JobsPicture
from apps.console.locks import HistoryTail, Key, LineRow, LocksPicture, Rates, picture_of
from apps.console.members import Members, by_group, members_of
from apps.console.order import listed
from apps.console.pipelines.watch import PipelinesPicture
from apps.console.rates import RateWindow
from apps.console.sparklines import LastHourPicture
from apps.console.topicrows import SENT, TopicRow, TopicRows, sum_known, sum_of_all
from apps.console.transactions import TransactionsPicture
from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.core.phrases import Text, phrase, phrase_in
from apps.delays.selectors import Delays, delays_of
from apps.engine.api import EngineAPI
from apps.engine.errors import UnknownTopic
from apps.engine.grouptypes import MemberState, QueueBacklog, QueueLockState
from apps.engine.litetypes import LiteBacklog, LiteTotal
from apps.engine.transactiontypes import TransactionStatus
from apps.engine.types import (
    ClientSeen,
    EngineStatus,
    GroupProgress,
    QueueRange,
    RoomState,
    TopicSpec,
)
from apps.groups.retrytopics import is_retry, retry_lag

CONSUMED = "consumed"
REFUSED = "refused"

_RETRIES = phrase_in("topic", "retries")
_NOT_COUNTED = phrase("lite topics, not counted yet")
_HAS_ROOM = phrase_in("room for sends", "yes")


class ProgressRow(TypedDict):
    """How far a group is in one queue; `kind` says of its own retry topic that it is one.

    All lite topics of a parent are one row without a queue, whose `kind` says how many of them have
    something left; offsets are numbers of their messages, and unknown until they are counted.
    """

    id: str
    topic: str
    queue: int | None
    kind: Text
    committed: int | None
    delivered: int | None
    in_flight: int | None
    max_offset: int
    lag: int | None
    consume_rate: float | None


class GroupRow(Members):
    """One group over all its queues; rates in messages a second.

    Progress begins with the first message: until then a group is its members, with unknown lag.
    `retry_lag` is the part of `lag` that lies in its retry topic. Sums are unknown while one of
    their parts is.
    """

    name: str
    topics: list[str]
    delivered: int | None
    committed: int | None
    in_flight: int | None
    lag: int | None
    retry_lag: int | None
    lag_level: str
    lag_trend: str | None
    lag_trend_said: Text | None
    consume_rate: float | None
    queues: list[ProgressRow]


class Totals(TypedDict):
    """The figures of the strip at the top of the overview.

    `parked` is of the whole broker, and unknown to who does not see all of it.
    """

    send_rate: float | None
    consume_rate: float | None
    held: int | None
    lag: int | None
    retry_lag: int | None
    lag_level: str
    in_flight: int | None
    parked: int | None
    topic_count: int
    queue_count: int
    group_count: int


class Snapshot(TypedDict):
    """Everything of one moment. `version` grows by one a reading and starts anew with the feed."""

    version: int
    sampled_at: str
    sampled_at_ms: int
    store: dict[str, Any]  # The fields of EngineStatus, whose values are of several types.
    totals: Totals
    topics: list[TopicRow]
    groups: list[GroupRow]
    locks: LocksPicture
    delays: DelaysPicture
    transactions: TransactionsPicture
    deaths: DeathsPicture
    jobs: JobsPicture
    clockwork: ClockworkPicture
    pipelines: PipelinesPicture
    last_hour: LastHourPicture


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the engine said in one go, before any arithmetic."""

    status: EngineStatus
    topics: Sequence[tuple[TopicSpec, Sequence[QueueRange] | None]]
    progress: Sequence[GroupProgress]
    clients: Sequence[ClientSeen]
    members: Sequence[MemberState]
    backlog: Sequence[QueueBacklog]
    lites: Sequence[LiteBacklog]
    in_lites: Mapping[str, LiteTotal]
    locks: Sequence[QueueLockState]
    lines: list[LineRow]
    delays: Delays
    transactions: TransactionStatus


def read(engine: EngineAPI, history: HistoryTail) -> Reading:
    """Ask the engine once for everything; call it on the engine's own loop."""
    specs = sorted(engine.catalog.topics.values(), key=lambda spec: listed(spec.name))
    return Reading(
        status=engine.status(),
        topics=[(spec, _ranges(engine, spec.name)) for spec in specs],
        progress=sorted(engine.group_progress(), key=lambda p: (p.group, p.topic, p.queue)),
        clients=engine.clients(),
        members=engine.members(),
        backlog=engine.backlog(),
        lites=engine.lite_backlog(),
        in_lites=engine.lite_totals(),
        locks=engine.queue_locks(),
        lines=history.follow(engine),
        delays=delays_of(engine),
        transactions=engine.transaction_status(),
    )


class Counters:
    """Finds the numbers of readings that only grow; those of still topics are found once."""

    def __init__(self) -> None:
        """Know of nothing yet."""
        self._sent: dict[str, tuple[Sequence[QueueRange] | None, Mapping[Hashable, int]]] = {}

    def of(self, reading: Reading) -> Mapping[Hashable, int]:
        """Return the numbers of a reading, by a key for each."""
        last, self._sent = self._sent, {}
        found: dict[Hashable, int] = {}
        for spec, ranges in reading.topics:
            before, sent = last.get(spec.name, (None, {}))
            # The engine tells again with the same list what has not changed.
            if before is not ranges:
                sent = {(SENT, spec.name, held.queue): held.max_offset for held in ranges or ()}
            self._sent[spec.name] = (ranges, sent)
            found.update(sent)
        for progress in reading.progress:
            if is_retry(progress):
                found[SENT, progress.topic, progress.queue] = progress.max_offset
            found[CONSUMED, progress.group, progress.topic, progress.queue] = progress.committed
        for parent, in_sum in reading.in_lites.items():
            found[SENT, parent, None] = in_sum.came
        for lites in reading.lites:
            if lites.passed is not None:
                found[CONSUMED, lites.group, lites.topic, None] = lites.passed
        for one in reading.backlog:
            found[REFUSED, one.group, one.topic, one.queue] = one.refusals
        return found


def build(
    reading: Reading,
    rates: RateWindow,
    topic_rows: TopicRows,
    clockwork: ClockworkPicture,
    last_hour: LastHourPicture,
    deaths: DeathsPicture,
    pipelines: PipelinesPicture,
    jobs: JobsPicture,
    *,
    version: int,
    sampled_at_ms: int,
) -> Snapshot:
    """Put a reading, its rates, and what watches know into one picture."""
    topics = topic_rows.take(reading.topics, rates, in_lites=reading.in_lites, now_ms=sampled_at_ms)
    groups = _group_rows(reading, rates, now_ms=sampled_at_ms)
    return {
        "version": version,
        "sampled_at": rfc3339(moment(sampled_at_ms)),
        "sampled_at_ms": sampled_at_ms,
        "store": _store(reading.status),
        "totals": _totals(reading, topics, groups),
        "topics": topics,
        "groups": groups,
        "locks": picture_of(
            reading.backlog,
            reading.members,
            reading.clients,
            reading.locks,
            reading.lines,
            _rates_of(reading.backlog, rates),
            refused={
                (one.group, one.topic, one.queue): rates.rate(
                    (REFUSED, one.group, one.topic, one.queue)
                )
                for one in reading.backlog
            },
            now_ms=sampled_at_ms,
        ),
        "delays": delays.picture_of(reading.delays, now_ms=sampled_at_ms),
        "transactions": transactions.picture_of(reading.transactions, now_ms=sampled_at_ms),
        "deaths": deaths,
        "jobs": jobs,
        "clockwork": clockwork,
        "pipelines": pipelines,
        "last_hour": last_hour,
    }


def _ranges(engine: EngineAPI, topic: str) -> list[QueueRange] | None:
    try:
        return engine.queue_ranges(topic)
    except UnknownTopic:  # The catalog has it and the queues are not made yet.
        return None


def _group_rows(reading: Reading, rates: RateWindow, *, now_ms: int) -> list[GroupRow]:
    progress: dict[str, list[GroupProgress]] = {}
    for one in reading.progress:
        progress.setdefault(one.group, []).append(one)
    lites: dict[str, list[LiteBacklog]] = {}
    for row in reading.lites:
        lites.setdefault(row.group, []).append(row)
    clients = by_group(reading.clients)
    states = {(one.group, one.client_id): one for one in reading.members}
    return [
        _group_row(
            name,
            progress.get(name, ()),
            lites.get(name, ()),
            rates,
            members_of(clients.get(name, ()), states, now_ms=now_ms),
        )
        for name in sorted(progress.keys() | lites.keys() | clients.keys(), key=listed)
    ]


def _rates_of(backlog: Sequence[QueueBacklog], rates: RateWindow) -> Rates:
    found: dict[Key, tuple[float | None, float | None]] = {}
    for one in backlog:
        sent = rates.rate((SENT, one.topic, one.queue))
        consumed = rates.rate((CONSUMED, one.group, one.topic, one.queue))
        found[one.group, one.topic, one.queue] = (sent, consumed)
    return found


def _group_row(
    name: str,
    progress: Sequence[GroupProgress],
    lites: Sequence[LiteBacklog],
    rates: RateWindow,
    members: Members,
) -> GroupRow:
    queues = [_progress_row(one, rates) for one in progress]
    queues += [_lites_row(one, rates) for one in lites]
    lag = sum_of_all(queue["lag"] for queue in queues) if queues else None
    consume_rate = sum_known(queue["consume_rate"] for queue in queues)
    send_rate = sum_known(rates.rate((SENT, row["topic"], row["queue"])) for row in queues)
    trend = levels.trend_of(lag=lag, send_rate=send_rate, consume_rate=consume_rate)
    topics = {row["topic"] for row in queues}
    topics.update(*(member["topics"] for member in members["members"]))
    return {
        "name": name,
        "topics": sorted(topics),
        "delivered": sum_of_all(queue["delivered"] for queue in queues),
        "committed": sum_of_all(queue["committed"] for queue in queues),
        "in_flight": sum_of_all(queue["in_flight"] for queue in queues),
        "lag": lag,
        "retry_lag": retry_lag(progress) if queues else None,
        "lag_level": levels.level_of(lag).value,
        "lag_trend": None if trend is None else trend.value,
        "lag_trend_said": levels.TREND_WORDS[trend],
        "consume_rate": consume_rate,
        "queues": queues,
        **members,
    }


def _progress_row(progress: GroupProgress, rates: RateWindow) -> ProgressRow:
    return {
        "id": f"{progress.topic}/{progress.queue}",
        "topic": progress.topic,
        "queue": progress.queue,
        "kind": _RETRIES if is_retry(progress) else "",
        "committed": progress.committed,
        "delivered": progress.delivered,
        "in_flight": progress.in_flight,
        "max_offset": progress.max_offset,
        "lag": progress.max_offset - progress.committed,
        "consume_rate": rates.rate((CONSUMED, progress.group, progress.topic, progress.queue)),
    }


def _lites_row(lites: LiteBacklog, rates: RateWindow) -> ProgressRow:
    kind = _NOT_COUNTED
    if lites.topics_behind is not None:
        kind = phrase("lite topics behind: %(count)s", count=f"{lites.topics_behind:,}")
    return {
        "id": f"{lites.topic}/",
        "topic": lites.topic,
        "queue": None,
        "kind": kind,
        "committed": lites.passed,
        "delivered": None if lites.ready is None else lites.arrived - lites.ready,
        "in_flight": lites.in_flight,
        "max_offset": lites.arrived,
        "lag": lites.lag,
        "consume_rate": rates.rate((CONSUMED, lites.group, lites.topic, None)),
    }


def _store(status: EngineStatus) -> dict[str, Any]:
    # Log offsets are bytes, so their differences are sizes.
    return {
        **asdict(status),
        "log_bytes": status.written_offset - status.log_start,
        "unsynced_bytes": status.written_offset - status.synced_offset,
        **_room(status),
        "disk_note": _disk_note(status),
    }


def _room(status: EngineStatus) -> dict[str, Text]:
    """Say whether the disk has room for sends: in a word, in a line, and how bad it is."""
    match status.room:
        case RoomState.FULL:
            word = phrase("full: sends are refused")
            line = phrase("none, sends are refused: %(reason)s", reason=status.room_reason)
            return {"room_word": word, "room_line": line, "room_level": "bad"}
        case RoomState.LOW:
            low = phrase_in("room for sends", "low")
            return {"room_word": low, "room_line": low, "room_level": "warn"}
        case RoomState.OK:
            return {"room_word": "", "room_line": _HAS_ROOM, "room_level": ""}


def _disk_note(status: EngineStatus) -> Text:
    """Say how full the disk is, and who keeps the log from being cut."""
    retention = status.retention
    if retention is None:
        return ""
    used = round(100 * retention.disk_used)
    if not retention.blocked_by:
        return phrase("%(percent)s %% used", percent=used)
    holder = retention.blocked_by[0].holder
    return phrase("%(percent)s %% used, %(holder)s blocks deletion", percent=used, holder=holder)


def lag_of_all(groups: Sequence[GroupRow]) -> int | None:
    """Return the lag of groups together; None where one is not counted yet, or none has read.

    Without a group nothing is late: there is no lag to speak of, and that is not zero.
    """
    # Who has read nothing has no part of a lag either.
    lags = [group["lag"] for group in groups if group["retry_lag"] is not None]
    return sum_of_all(lags) if lags else None


def _totals(reading: Reading, topics: Sequence[TopicRow], groups: Sequence[GroupRow]) -> Totals:
    held = [topic["held"] for topic in topics]
    lag = lag_of_all(groups)
    return {
        # Not the count of appended records: the journal of acknowledgements is among them.
        "send_rate": sum_known(topic["send_rate"] for topic in topics),
        # Not the count of deliveries: a reader that pulls by offset is seen by what it commits.
        "consume_rate": sum_known(group["consume_rate"] for group in groups),
        "held": None if None in held else sum(count for count in held if count is not None),
        "lag": lag,
        "retry_lag": None if lag is None else retry_lag(reading.progress),
        "lag_level": levels.level_of(lag).value,
        "in_flight": sum_of_all(group["in_flight"] for group in groups),
        "parked": reading.status.parked,
        "topic_count": len(topics),
        "queue_count": sum(topic["queue_count"] for topic in topics),
        "group_count": len(groups),
    }
