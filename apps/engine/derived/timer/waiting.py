"""Waiting messages in memory, by the moment they are delivered at. Knows rows; no bytes, no clock.

A few sorted tables instead of slots: a batch is sorted once and laid beside the others, and tables
of like size are joined, so that a row is moved a dozen times and none is touched by a loop. A
table does not grow above 65,536 rows, because joining two of them is then 10 ms.
"""

from collections.abc import Callable, Set

import numpy as np
from numpy.typing import NDArray

from apps.engine.derived.timer.rows import Rows, in_order, joined

_TABLE_ROWS_MAX = 65_536
_NEVER = 1 << 62


class _Table:
    """Rows by moment and number, from `head` on; those before it are gone."""

    __slots__ = ("at_ms", "head", "next_ms", "rows")

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        # A column of its own: searching it is three times as fast as through the rows.
        self.at_ms: NDArray[np.int64] = np.ascontiguousarray(rows["at_ms"])
        self.head = 0
        self.next_ms = int(self.at_ms[0])

    def __len__(self) -> int:
        return len(self.rows) - self.head

    def left(self) -> Rows:
        return self.rows[self.head :]

    def position(self, at_ms: int, number: int) -> int:
        """Return where the first row behind (`at_ms`, `number`) is."""
        first = int(np.searchsorted(self.at_ms, at_ms, side="left"))
        stop = int(np.searchsorted(self.at_ms, at_ms, side="right"))
        ties = self.rows["number"][first:stop]
        return max(self.head, first + int(np.searchsorted(ties, number, side="right")))

    def cut(self, head: int) -> None:
        self.head = head
        self.next_ms = int(self.at_ms[head]) if head < len(self.rows) else _NEVER
        if 2 * head > len(self.rows) and len(self):
            self.rows, self.at_ms, self.head = self.rows[head:].copy(), self.at_ms[head:].copy(), 0


class WaitingRows:
    """Rows that wait, some of them dead: cancelled or sent, and not yet come to."""

    def __init__(self) -> None:
        """Start with none."""
        self._tables: list[_Table] = []
        self._dead: dict[int, int] = {}

    def __len__(self) -> int:
        """Return how many wait, without the dead."""
        return sum(map(len, self._tables)) - len(self._dead)

    @property
    def next_ms(self) -> int | None:
        """Return the first moment at which there is something to look at; None without any."""
        found = min((table.next_ms for table in self._tables), default=_NEVER)
        return None if found == _NEVER else found

    def add(self, rows: Rows) -> None:
        """Add rows, ROW[n], in any order."""
        for start in range(0, len(rows), _TABLE_ROWS_MAX):
            self._tables.append(_Table(in_order(rows[start : start + _TABLE_ROWS_MAX])))
            self._join()

    def _join(self) -> None:
        while len(self._tables) > 1:
            last, before = self._tables[-1], self._tables[-2]
            if len(before) > 2 * len(last) or len(before) + len(last) > _TABLE_ROWS_MAX:
                return
            del self._tables[-2:]
            parts = [table.left() for table in (before, last) if len(table)]
            if parts:
                self._tables.append(_Table(in_order(joined(parts))))

    def due(self, now_ms: int, rows_max: int) -> Rows:
        """Return the first rows up to a moment, in order, the dead ones too. Removes nothing."""
        parts = []
        for table in self._tables:
            if table.next_ms <= now_ms:
                near = table.at_ms[table.head : table.head + rows_max]
                count = int(np.searchsorted(near, now_ms, side="right"))
                parts.append(table.rows[table.head : table.head + count])
        if len(parts) == 1:
            return parts[0]
        return in_order(joined(parts))[:rows_max]

    def is_alive(self, rows: Rows) -> NDArray[np.bool_]:
        """Say of each row whether it still waits."""
        if not self._dead:
            return np.ones(len(rows), dtype=bool)
        return ~np.isin(rows["number"], np.fromiter(self._dead, dtype=np.int64))

    def remove_until(self, last: Rows) -> None:
        """Remove all rows up to and with `last`, ROW[], one that `due` returned."""
        at_ms, number = int(last["at_ms"]), int(last["number"])
        for table in self._tables:
            if table.next_ms <= at_ms:
                table.cut(table.position(at_ms, number))
        self._tables = [table for table in self._tables if len(table)]
        if self._dead:
            key = (at_ms, number)
            self._dead = {n: at for n, at in self._dead.items() if (at, n) > key}

    def find(self, number: int, at_ms: int) -> Rows | None:
        """Return the row of a number and its moment, ROW[]; None where none waits."""
        if number in self._dead:
            return None
        for table in self._tables:
            at = table.position(at_ms, number - 1)
            if at < len(table.rows) and int(table.rows["number"][at]) == number:
                return table.rows[at]  # type: ignore[no-any-return]
        return None

    def kill(self, row: Rows) -> None:
        """Let one row that `find` returned wait no more."""
        self._dead[int(row["number"])] = int(row["at_ms"])

    def between(self, start_ms: int, stop_ms: int, rows_max: int | None = None) -> Rows:
        """Return those that wait for a moment from `start_ms` up to, not with, `stop_ms`.

        In no order; with `rows_max` at least the first so many of them, where there are as many.
        """
        parts = []
        room = None if rows_max is None else rows_max + len(self._dead)
        for table in self._tables:
            first = max(table.head, int(np.searchsorted(table.at_ms, start_ms, side="left")))
            stop = max(first, int(np.searchsorted(table.at_ms, stop_ms, side="left")))
            parts.append(table.rows[first : stop if room is None else min(stop, first + room)])
        found = joined(parts)
        return found[self.is_alive(found)]

    def counts(self, moments_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many wait for each moment or one before it: int64[n]; moments ascend."""
        found = np.zeros(len(moments_ms), dtype=np.int64)
        for table in self._tables:
            found += np.searchsorted(table.at_ms[table.head :], moments_ms, side="right")
        if self._dead:
            dead = np.sort(np.fromiter(self._dead.values(), dtype=np.int64))
            found -= np.searchsorted(dead, moments_ms, side="right")
        return found

    def everything(self) -> Rows:
        """Return all that wait, in no order: a copy."""
        found = joined([table.left() for table in self._tables])
        return found[self.is_alive(found)]

    def first_number(self, source: int | None = None) -> int | None:
        """Return the lowest number that waits, of those in a source; None where there is none."""
        found = [
            int(numbers.min())
            for table in self._tables
            if len(numbers := _of_source(table.left(), source, self._dead.keys()))
        ]
        return min(found, default=None)

    def keep(self, chosen: Callable[[Rows], NDArray[np.bool_]]) -> None:
        """Keep what `chosen` says, bool[n]; the order stays as it is."""
        tables = []
        for table in self._tables:
            rows = table.left()
            kept = rows[chosen(rows) & self.is_alive(rows)]
            if len(kept):
                tables.append(_Table(kept))
        self._tables, self._dead = tables, {}

    def replace(self, change: Callable[[Rows], Rows]) -> None:
        """Put what `change` makes of the waiting rows in their place."""
        rows = change(self.everything())
        self._tables, self._dead = [], {}
        self.add(rows)


def _of_source(rows: Rows, source: int | None, dead: Set[int]) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = rows["number"]
    if source is not None:
        numbers = numbers[rows["source"] == source]
    if dead:
        numbers = numbers[~np.isin(numbers, np.fromiter(dead, dtype=np.int64))]
    return numbers
