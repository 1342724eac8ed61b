"""How fast queues fill and empty, from looks at the engine some seconds apart. Pure.

A rate is unknown until a queue was looked at before, after an offset was set back, and where the
last looks are too long ago to say anything of now. Unknown is None, never 0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apps.engine.grouptypes import QueueBacklog
from apps.engine.litetypes import LiteBacklog

# Long enough to smooth batches and commits every 5 s, short enough to see a stop.
WINDOW_MS = 30_000
# Over a longer pause a rate would be an average of a time nobody means.
PAUSE_MS_MAX = 60_000
# Less than this apart, one batch more or less would decide.
APART_MS_MIN = 1_000

Key = tuple[str, str, int]
# In the place of a queue's number: all lite topics of the topic.
_LITES = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Messages a second into and out of a queue, and in which time it will be empty.

    `drain_ms` is 0 where it is empty, and None where it does not shrink or nobody knows.
    """

    in_per_s: float | None
    out_per_s: float | None
    drain_ms: int | None


@dataclass(frozen=True, slots=True)
class _Look:
    taken_ms: int
    offsets: Mapping[Key, tuple[int, int]]


class Looks:
    """The looks of the last half a minute. Taken in one thread, asked in any."""

    def __init__(self) -> None:
        """Have looked at nothing."""
        # Replaced whole, so that a reader in another thread has one or the other.
        self._looks: tuple[_Look, ...] = ()

    def take(
        self, rows: Iterable[QueueBacklog], lites: Iterable[LiteBacklog] = (), *, now_ms: int
    ) -> None:
        """Remember a look at a moment of the monotonic clock."""
        offsets = {(r.group, r.topic, r.queue): (r.committed, r.max_offset) for r in rows}
        for one in lites:
            if one.passed is not None:
                offsets[one.group, one.topic, _LITES] = (one.passed, one.arrived)
        kept = [look for look in self._looks if now_ms - look.taken_ms <= WINDOW_MS]
        self._looks = (*kept, _Look(now_ms, offsets))

    def pace(self, row: QueueBacklog, *, now_ms: int) -> Pace:
        """Return how fast a queue goes that was just read."""
        key = (row.group, row.topic, row.queue)
        return self._pace(key, row.committed, row.max_offset, now_ms)

    def pace_of_lites(self, row: LiteBacklog, *, now_ms: int) -> Pace:
        """Return how fast the lite topics of a parent go together that were just read."""
        if row.passed is None:
            return Pace(in_per_s=None, out_per_s=None, drain_ms=None)
        return self._pace((row.group, row.topic, _LITES), row.passed, row.arrived, now_ms)

    def _pace(self, key: Key, committed: int, max_offset: int, now_ms: int) -> Pace:
        lag = max_offset - committed
        for look in self._looks:
            elapsed_ms = now_ms - look.taken_ms
            before = look.offsets.get(key)
            if before is not None and APART_MS_MIN <= elapsed_ms <= PAUSE_MS_MAX:
                committed_before, max_offset_before = before
                if committed >= committed_before and max_offset >= max_offset_before:
                    return _pace(
                        lag,
                        in_per_s=(max_offset - max_offset_before) * 1000 / elapsed_ms,
                        out_per_s=(committed - committed_before) * 1000 / elapsed_ms,
                    )
        return _pace(lag, in_per_s=None, out_per_s=None)


def together(lag: int | None, paces: Iterable[Pace]) -> Pace:
    """Return the pace of several queues as one; what is unknown of one makes no other unknown."""
    known = [
        (pace.in_per_s, pace.out_per_s)
        for pace in paces
        if pace.in_per_s is not None and pace.out_per_s is not None
    ]
    if not known:
        return _pace(lag, in_per_s=None, out_per_s=None)
    return _pace(
        lag,
        in_per_s=sum(in_per_s for in_per_s, _ in known),
        out_per_s=sum(out_per_s for _, out_per_s in known),
    )


def drain_ms(lag: int | None, *, in_per_s: float | None, out_per_s: float | None) -> int | None:
    """Return in which time a backlog is gone; see Pace."""
    if lag is not None and lag <= 0:
        return 0
    if lag is None or in_per_s is None or out_per_s is None or out_per_s <= in_per_s:
        return None
    return int(lag * 1000 / (out_per_s - in_per_s))


def _pace(lag: int | None, *, in_per_s: float | None, out_per_s: float | None) -> Pace:
    return Pace(
        in_per_s=in_per_s,
        out_per_s=out_per_s,
        drain_ms=drain_ms(lag, in_per_s=in_per_s, out_per_s=out_per_s),
    )


recent = Looks()
"""What this process has seen lately; filled where the engine lives, empty elsewhere."""
