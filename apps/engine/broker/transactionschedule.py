"""When each half message is to be checked next. Knows ages and intervals; no records, no clients.

All times are of the monotonic clock.
"""

import heapq
from collections.abc import Collection, Iterable

from apps.engine.broker.transactionstate import Half
from apps.engine.config import EngineConfig

# A heap is made anew when half of its entries, and so many, are of no use any more.
_STALE_MAX = 64


class CheckSchedule:
    """Half messages that are to be checked, by producer group and by when; and those that were
    checked for the last time.
    """

    def __init__(self, halves: Iterable[Half], *, config: EngineConfig) -> None:
        """Take up what was pending when the store was opened."""
        self._config = config
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[int, str] = {}
        self.exhausted: set[int] = set()
        for half in halves:
            self.plan(half)

    def due_ms(self, half: Half) -> int | None:
        """Return when a half message is due for a check; None when it had its last one."""
        if half.checks >= self._config.transaction_checks_max:
            return None
        if half.is_hurried:
            return half.begun_at_ms
        if not half.checks:
            return half.begun_at_ms + half.immunity_ms
        return half.checked_at_ms + self._config.transaction_check_ms

    def is_too_old(self, half: Half, now_ms: int) -> bool:
        """Say whether a half message may not wait for a decision any longer."""
        return half.begun_at_ms + self._config.transaction_ms_max <= now_ms

    def is_unanswered(self, half: Half, now_ms: int) -> bool:
        """Say whether a half message had its last check, and time for an answer to it."""
        last_ms = half.checked_at_ms + self._config.transaction_check_ms
        return half.half_offset in self.exhausted and last_ms <= now_ms

    def plan(self, half: Half) -> None:
        """Have a half message fall due when it is, as its state says."""
        due_ms = self.due_ms(half)
        if due_ms is None:
            self.forget(half.half_offset)
            self.exhausted.add(half.half_offset)
            return
        group = self._groups.get(half.producer_group)
        if group is None:
            group = self._groups[half.producer_group] = _Group()
        self._group_of[half.half_offset] = half.producer_group
        group.put(half.half_offset, due_ms)

    def forget(self, half_offset: int) -> None:
        """Do not check a half message any more."""
        self.exhausted.discard(half_offset)
        name = self._group_of.pop(half_offset, None)
        if name is None:
            return
        group = self._groups[name]
        group.due_ms.pop(half_offset, None)
        if not group.due_ms:
            del self._groups[name]

    def due(self, producer_group: str, now_ms: int, count_max: int) -> list[int]:
        """Return half messages of a group that are due, the first first; they stay so."""
        group = self._groups.get(producer_group)
        if group is None:
            return []
        # One that was planned for the same moment twice may be in the heap twice.
        found: dict[int, int] = {}
        while len(found) < count_max and group.next_ms(default=now_ms + 1) <= now_ms:
            due_ms, half_offset = heapq.heappop(group.heap)
            found[half_offset] = due_ms
        for half_offset, due_ms in found.items():
            heapq.heappush(group.heap, (due_ms, half_offset))
        return list(found)

    def next_ms(self, producer_groups: Collection[str]) -> int | None:
        """Return when the next check of some groups is due; None when none is."""
        found = [self._groups[name] for name in producer_groups if name in self._groups]
        return min((group.next_ms() for group in found), default=None)


class _Group:
    """The half messages of one group, of which there is one at least."""

    __slots__ = ("due_ms", "heap")

    def __init__(self) -> None:
        self.due_ms: dict[int, int] = {}
        # What was ended or planned anew since stays in the heap until it comes up.
        self.heap: list[tuple[int, int]] = []

    def put(self, half_offset: int, due_ms: int) -> None:
        if self.due_ms.get(half_offset) == due_ms:
            return
        self.due_ms[half_offset] = due_ms
        heapq.heappush(self.heap, (due_ms, half_offset))
        if len(self.heap) > 2 * len(self.due_ms) + _STALE_MAX:
            self.heap = [(due_ms, half_offset) for half_offset, due_ms in self.due_ms.items()]
            heapq.heapify(self.heap)

    def next_ms(self, *, default: int = 0) -> int:
        """Return when the first is due; `default` when all were taken from the heap."""
        heap = self.heap
        while heap and self.due_ms.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else default
