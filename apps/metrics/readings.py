"""What the engine says at one moment, summed over queues, and rates between two moments.

Pure: knows values, no row and no clock.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from apps.engine.litetypes import LiteBacklog
from apps.engine.types import EngineStatus, GroupProgress, TopicTotal
from apps.metrics.looks import Look, LookOfGroup

# The product's own topics: frames, journals.
SYSTEM_PREFIX = "rmq_sys_"

# A rate belongs to the slot it is written into. Over a longer pause it would be the average of a
# time that the series show as a gap.
PAUSE_MS_MAX = 60_000

GroupKey = tuple[str, str]
"""Group and topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReading:
    """A topic's counter of messages ever sent, and how many of them it still holds."""

    sent: int
    held: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReading:
    """A group's progress in one topic, over the queues it has touched, or over its lite topics.

    What is not known is None: a group that is new to many lite topics is counted after a while.
    """

    queue_count: int
    committed: int | None
    delivered: int | None = 0
    in_flight: int | None = 0
    lag: int | None = 0
    look: LookOfGroup | None = None
    """None where nobody looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Everything of one moment: when it was taken, topics by name, groups by group and topic.

    `look` is None where the engine was not asked for what costs it more.
    """

    taken_ms: int
    topics: Mapping[str, TopicReading] = field(default_factory=dict)
    groups: Mapping[GroupKey, GroupReading] = field(default_factory=dict)
    log_bytes: int = 0
    disk_percent: int | None = None
    look: Look | None = None


def reading_of(
    *,
    taken_ms: int,
    status: EngineStatus,
    totals: Mapping[str, TopicTotal],
    progress: Iterable[GroupProgress],
    lites: Iterable[LiteBacklog] = (),
    look: Look | None = None,
) -> Reading:
    """Sum up what the engine said; topics of the product's own are left out.

    A parent's own queues hold nothing, so what a group has in it is what it has in its lite topics.
    """
    queues: dict[GroupKey, list[GroupProgress]] = {}
    for row in progress:
        if not row.topic.startswith(SYSTEM_PREFIX):
            queues.setdefault((row.group, row.topic), []).append(row)
    return Reading(
        taken_ms=taken_ms,
        topics={
            topic: TopicReading(sent=found.sent, held=found.held)
            for topic, found in totals.items()
            if not topic.startswith(SYSTEM_PREFIX)
        },
        groups={
            **{key: _group_reading(key, found, look) for key, found in queues.items()},
            **{(row.group, row.topic): _lite_reading(row, look) for row in lites},
        },
        log_bytes=status.written_offset - status.log_start,
        disk_percent=_disk_percent(status),
        look=look,
    )


def send_rates(now: Reading, before: Reading | None) -> Mapping[str, float | None]:
    """Return messages sent a second by topic; None where nothing says how many."""
    return {
        topic: None
        if before is None or topic not in before.topics
        else _rate(found.sent - before.topics[topic].sent, now.taken_ms - before.taken_ms)
        for topic, found in now.topics.items()
    }


def consume_rates(now: Reading, before: Reading | None) -> Mapping[GroupKey, float | None]:
    """Return messages committed a second by group and topic; None where nothing says how many."""
    return _group_rates(now, before, lambda found: found.committed)


def arrive_rates(now: Reading, before: Reading | None) -> Mapping[GroupKey, float | None]:
    """Return messages that came for the group a second, as `consume_rates` does."""
    return _group_rates(now, before, _arrived)


def refusal_rates(now: Reading, before: Reading | None) -> Mapping[GroupKey, float | None]:
    """Return locks refused a second; None where one of the two readings has no look."""
    return _group_rates(now, before, lambda found: found.look.refusals if found.look else None)


def _group_rates(
    now: Reading, before: Reading | None, counter: Callable[[GroupReading], int | None]
) -> Mapping[GroupKey, float | None]:
    # A group that has come to a further queue counts from another number on: its commits there are
    # an offset, not messages of this moment.
    found: dict[GroupKey, float | None] = {}
    for key, reading in now.groups.items():
        earlier = None if before is None else before.groups.get(key)
        found[key] = None
        if before is None or earlier is None or reading.queue_count != earlier.queue_count:
            continue
        count, count_before = counter(reading), counter(earlier)
        if count is not None and count_before is not None:
            found[key] = _rate(count - count_before, now.taken_ms - before.taken_ms)
    return found


def total(rates: Iterable[float | None]) -> float | None:
    """Return the sum of the known rates; None when none is known.

    What is seen for the first time does not make the whole unknown.
    """
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _group_reading(
    key: GroupKey, queues: Sequence[GroupProgress], look: Look | None
) -> GroupReading:
    lag = sum(row.max_offset - row.committed for row in queues)
    return GroupReading(
        queue_count=len(queues),
        committed=sum(row.committed for row in queues),
        delivered=sum(row.delivered for row in queues),
        in_flight=sum(row.in_flight for row in queues),
        lag=lag,
        look=None if look is None else look.of(key, lag=lag),
    )


def _lite_reading(row: LiteBacklog, look: Look | None) -> GroupReading:
    return GroupReading(
        queue_count=0,
        committed=row.passed,
        delivered=None if row.ready is None else row.arrived - row.ready,
        in_flight=row.in_flight,
        lag=row.lag,
        look=None if look is None else look.of((row.group, row.topic), lag=row.lag),
    )


def _arrived(found: GroupReading) -> int | None:
    if found.committed is None or found.lag is None:
        return None
    return found.committed + found.lag


def known_sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum of counts; None where one is not known, for it may be any."""
    found = list(counts)
    return None if None in found else sum(count for count in found if count is not None)


def _disk_percent(status: EngineStatus) -> int | None:
    if status.retention is not None:
        return round(100 * status.retention.disk_used)
    if not status.disk_bytes:
        return None
    return round(100 * (1 - status.free_bytes / status.disk_bytes))


def _rate(grown: int, elapsed_ms: int) -> float | None:
    # A counter that fell was begun anew.
    if grown < 0 or not 0 < elapsed_ms <= PAUSE_MS_MAX:
        return None
    return grown * 1000 / elapsed_ms
