"""Rows of topics in a picture. Knows ranges and rates; no engine, clock or page.

A topic in which nothing moves costs next to nothing: its row is the one of before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import TypedDict

from apps.console.rates import RateWindow
from apps.engine.litetypes import LiteTotal
from apps.engine.types import QueueRange, TopicSpec

SENT = "sent"


class QueueRow(TypedDict):
    """What one queue holds; offsets from `min_offset` up to, not with, `max_offset`."""

    queue: int
    min_offset: int
    max_offset: int
    held: int
    send_rate: float | None


class TopicRow(TypedDict):
    """One topic; `held` and `queues` are None when the engine does not know its queues.

    What a parent holds and takes is in its lite topics, which `held` and `send_rate` have in sum.
    `compacted_age_s` is how long ago the last round of compaction ended; None without any.
    """

    name: str
    type: str
    cleanup: str
    compacted_age_s: int | None
    queue_count: int
    held: int | None
    send_rate: float | None
    queues: list[QueueRow] | None


Ranges = Sequence[QueueRange] | None
"""None where the catalog has a topic and its queues are not made yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A row, of what it was made, and how many readings before its own found the same."""

    spec: TopicSpec
    ranges: Ranges
    in_lites: LiteTotal | None
    row: TopicRow
    still: int


class TopicRows:
    """Makes the rows of one reading after the other, and knows those of the last one."""

    def __init__(self) -> None:
        """Know of nothing yet."""
        self._made: dict[str, _Made] = {}

    def take(
        self,
        topics: Iterable[tuple[TopicSpec, Ranges]],
        rates: RateWindow,
        *,
        in_lites: Mapping[str, LiteTotal],
        now_ms: int,
    ) -> list[TopicRow]:
        """Return the rows of a reading whose counters `rates` has just been given."""
        self._made = {
            spec.name: self._one(spec, ranges, in_lites.get(spec.name), rates, now_ms=now_ms)
            for spec, ranges in topics
        }
        return [made.row for made in self._made.values()]

    def _one(
        self,
        spec: TopicSpec,
        ranges: Ranges,
        in_lites: LiteTotal | None,
        rates: RateWindow,
        *,
        now_ms: int,
    ) -> _Made:
        last = self._made.get(spec.name)
        still = 0
        row: TopicRow | None = None
        if (
            last is not None
            and (last.spec, last.in_lites) == (spec, in_lites)
            and _is_same(last.ranges, ranges)
        ):
            still = last.still + 1
            # With the row before, every reading of the window has been the same: its rates are 0.
            if last.still >= rates.sample_count and last.row["compacted_age_s"] is None:
                row = last.row
        if row is None:
            row = _row(spec, ranges, in_lites, rates, now_ms=now_ms)
        return _Made(spec=spec, ranges=ranges, in_lites=in_lites, row=row, still=still)


def _is_same(one: Ranges, other: Ranges) -> bool:
    """Say whether two answers of the engine are made of the same values."""
    if one is other or one is None or other is None:
        return one is other
    return len(one) == len(other) and all(map(is_, one, other))


def _row(
    spec: TopicSpec,
    ranges: Ranges,
    in_lites: LiteTotal | None,
    rates: RateWindow,
    *,
    now_ms: int,
) -> TopicRow:
    queues: list[QueueRow] | None = None
    if ranges is not None:
        queues = [
            {
                "queue": held.queue,
                "min_offset": held.min_offset,
                "max_offset": held.max_offset,
                "held": held.held,
                "send_rate": rates.rate((SENT, spec.name, held.queue)),
            }
            for held in ranges
        ]
    held = None if queues is None else sum(queue["held"] for queue in queues)
    send_rates = [queue["send_rate"] for queue in queues or ()]
    if in_lites is not None:
        held = (held or 0) + in_lites.held
        send_rates.append(rates.rate((SENT, spec.name, None)))
    return {
        "name": spec.name,
        "type": spec.type.value,
        "cleanup": spec.cleanup.value,
        "compacted_age_s": _compacted_age_s(ranges or (), now_ms),
        "queue_count": spec.queue_count,
        "held": held,
        "send_rate": sum_known(send_rates),
        "queues": queues,
    }


def sum_of_all(counts: Iterable[int | None]) -> int | None:
    """Return the sum of counts; None where one of them is not known."""
    found = list(counts)
    return None if None in found else sum(count for count in found if count is not None)


def sum_known(rates: Iterable[float | None]) -> float | None:
    """Return the sum of what is known; None when nothing is.

    A queue seen for the first time is left out, so that it does not blank the whole for a second.
    """
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _compacted_age_s(ranges: Sequence[QueueRange], now_ms: int) -> int | None:
    """Return how long ago the last round of compaction of a topic was; None before the first."""
    last_ms = max((held.compacted_ms or 0 for held in ranges), default=0)
    return max(0, now_ms - last_ms) // 1000 if last_ms else None
