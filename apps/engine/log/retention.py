"""Which segments may go: by age, by size, by how full the disk is. Decides only, deletes nothing.

Knows numbers: where segments begin, when the first message of each was stored, and rules. A
segment is as old as the first message behind it, which is the next segment's first: nothing in it
is younger.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

MS_OF_HOUR = 3_600_000

# As many as RocketMQ deletes in one round.
SEGMENTS_MAX = 10


class Rule(StrEnum):
    """Why segments are to be deleted."""

    AGE = "age"
    SIZE = "size"
    DISK = "disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """RocketMQ's rules: fileReservedTime, deleteWhen, and its marks of a disk that fills up.

    `hours` are those of a day, UTC, in which age alone is a reason. From `expire_share` of the disk
    on it is at any hour; from `force_share` on the oldest go whatever their age. `bytes_max` None
    does not limit the log's size.
    """

    age_ms: int
    bytes_max: int | None = None
    hours: tuple[int, ...] = (4,)
    expire_share: float = 0.75
    force_share: float = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExtent:
    """The log at one moment: `bases` are the segments before the newest, in order.

    `newest` is where the newest begins, `end` where the log ends. `first_ms` tells when the first
    message of the segment that begins somewhere was stored; None where it has none.
    """

    bases: Sequence[int]
    newest: int
    end: int
    first_ms: Callable[[int], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Delete what lies below `log_start`, because of `rule`. `more` says that this is not all."""

    log_start: int
    rule: Rule
    more: bool


def is_hour(policy: RetentionPolicy, now_ms: int) -> bool:
    """Say whether a wall time is in an hour in which age alone is a reason."""
    return now_ms // MS_OF_HOUR % 24 in policy.hours


def wanted(
    policy: RetentionPolicy,
    log: LogExtent,
    *,
    now_ms: int,
    disk_used: float,
    at_any_hour: bool = False,
) -> Wanted | None:
    """Return what the rules want deleted, at most ten segments, and for the disk's sake one.

    None for nothing. The newest segment is never part of it.
    """
    starts = [*log.bases[1:], log.newest][: len(log.bases)]
    by_age = _expired(policy, log, starts, now_ms)
    if not (at_any_hour or disk_used >= policy.expire_share or is_hour(policy, now_ms)):
        by_age = 0
    by_size = 0
    if policy.bytes_max is not None:
        # From the front: as long as what is left without this segment is still enough.
        by_size = sum(log.end - base > policy.bytes_max for base in log.bases)
    count, rule = max((by_age, Rule.AGE), (by_size, Rule.SIZE), key=lambda item: item[0])
    if not count and disk_used >= policy.force_share and log.bases:
        return Wanted(log_start=starts[0], rule=Rule.DISK, more=True)
    if not count:
        return None
    taken = min(count, SEGMENTS_MAX)
    return Wanted(log_start=starts[taken - 1], rule=rule, more=taken < count)


def _expired(policy: RetentionPolicy, log: LogExtent, starts: Sequence[int], now_ms: int) -> int:
    """Return how many segments from the front on are too old."""
    count = 0
    for start in starts[: SEGMENTS_MAX + 1]:
        first_ms = log.first_ms(start)
        if first_ms is None or first_ms > now_ms - policy.age_ms:
            break
        count += 1
    return count
