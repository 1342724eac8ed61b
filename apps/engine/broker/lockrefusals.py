"""How often locks were refused lately, to whom and for whom. Knows counts and the wall clock.

A client that is refused asks again, so refusals come in thousands: they are gathered by minute,
in memory, and none of them is written down. A restart begins anew.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from apps.engine.clock import Clock
from apps.engine.grouptypes import LockRefused

MINUTE_MS = 60_000
MINUTES_KEPT = 60
# Above it the oldest minutes go sooner; within one minute clients are then counted together.
KEYS_MAX = 10_000

_Queue = tuple[str, str, int]
_Pair = tuple[str, str, int, str, str]
"""Group, topic and queue, who had it, and who was refused."""


@dataclass(slots=True)
class _Count:
    count: int = 0
    last_ms: int = 0


class LockRefusals:
    """Counts since the store was opened, and by minute for the last hour."""

    def __init__(self, clock: Clock, *, keys_max: int = KEYS_MAX) -> None:
        """Have counted nothing."""
        self._clock = clock
        self._keys_max = keys_max
        self._keys = 0
        self._totals: Counter[_Queue] = Counter()
        # The oldest minute first.
        self._minutes: dict[int, dict[_Pair, _Count]] = {}

    def add(self, group: str, topic: str, queue: int, *, owner: str, client_id: str) -> None:
        """Count one refusal of a queue's lock to a client, on behalf of its owner."""
        self._totals[group, topic, queue] += 1
        now_ms = self._clock.wall_ms()
        minute = self._minute(now_ms - now_ms % MINUTE_MS)
        pair: _Pair = (group, topic, queue, owner, client_id)
        found = minute.get(pair)
        if found is None:
            if self._keys >= self._keys_max:
                pair = (group, topic, queue, owner, "")
            self._keys += pair not in minute
            found = minute.setdefault(pair, _Count())
        found.count += 1
        found.last_ms = max(found.last_ms, now_ms)

    def total(self, group: str, topic: str, queue: int) -> int:
        """Return how often a lock was refused to anybody since the store was opened."""
        return self._totals[group, topic, queue]

    def since(self, minute_ms: int) -> list[LockRefused]:
        """Return the counts of the minutes that begin at `minute_ms` or later, the oldest first.

        The count of the minute that goes on still grows.
        """
        return [
            LockRefused(
                group=group,
                topic=topic,
                queue=queue,
                owner=owner,
                client_id=client_id,
                minute_ms=start_ms,
                count=found.count,
                last_ms=found.last_ms,
            )
            for start_ms, minute in sorted(self._minutes.items())
            if start_ms >= minute_ms
            for (group, topic, queue, owner, client_id), found in minute.items()
        ]

    def forget(self, is_there: Callable[[str, int], bool]) -> None:
        """Forget the totals of queues that are gone."""
        for key in [key for key in self._totals if not is_there(*key[1:])]:
            del self._totals[key]

    def _minute(self, start_ms: int) -> dict[_Pair, _Count]:
        minute = self._minutes.get(start_ms)
        if minute is None:
            minute = self._minutes[start_ms] = {}
        # Told apart by their order of coming: the wall clock may be set back.
        while len(self._minutes) > 1 and (
            len(self._minutes) > MINUTES_KEPT or self._keys >= self._keys_max
        ):
            oldest = next(iter(self._minutes))
            if oldest == start_ms:
                break
            self._keys -= len(self._minutes.pop(oldest))
        return minute
