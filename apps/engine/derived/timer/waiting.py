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

    __slots__ = ("_spans", "at_ms", "head", "next_ms", "rows")

    def __init__(self, rows: Rows) -> None:
        # Never written to: a thread may be reading them.
        self.rows = rows
        self._spans: dict[int, tuple[int, int]] | None = None
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

    @property
    def spans(self) -> dict[int, tuple[int, int]]:
        """Return the lowest and highest number of each source, rows that are gone perhaps too.

        Asked of tables that stay as they are for long; a look at every row would hold the loop.
        """
        if self._spans is None:
            rows = self.left()
            sources, numbers = rows["source"], rows["number"]
            self._spans = {
                source: (int(found.min()), int(found.max()))
                for source in np.unique(sources).tolist()
                if len(found := numbers[sources == source])
            }
        return self._spans

    def cut(self, head: int) -> None:
        self.head = head
        self.next_ms = int(self.at_ms[head]) if head < len(self.rows) else _NEVER
        if 2 * head > len(self.rows) and len(self):
            self.rows, self.at_ms, self.head = self.rows[head:].copy(), self.at_ms[head:].copy(), 0
            self._spans = None


class WaitingRows:
    """Rows that wait, some of them dead: cancelled or sent, and not yet come to."""

    def __init__(self) -> None:
        """Start with none."""
        self._tables: list[_Table] = []
        # When each would have been delivered, and its source.
        self._dead: dict[int, tuple[int, int]] = {}

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
            self._dead = {n: where for n, where in self._dead.items() if (where[0], n) > key}

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
        self._dead[int(row["number"])] = int(row["at_ms"]), int(row["source"])

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
            dead = np.sort(np.array([at_ms for at_ms, _ in self._dead.values()]))
            found -= np.searchsorted(dead, moments_ms, side="right")
        return found

    def parts(self) -> list[Rows]:
        """Return all rows, the dead ones too, in pieces that nobody changes: for a thread."""
        return [table.left() for table in self._tables]

    def count_behind(self, at_ms: int) -> int:
        """Return how many wait for a moment behind `at_ms`, the dead ones too."""
        return sum(
            len(table.rows) - max(table.head, int(np.searchsorted(table.at_ms, at_ms, "right")))
            for table in self._tables
        )

    def first_number(self, source: int | None = None) -> int | None:
        """Return a number below which none of a source, or of all, waits; None where none does.

        Rows that are dead, or gone since their table was made, count as well for a while.
        """
        lows = [
            low
            for table in self._tables
            for of, (low, _) in table.spans.items()
            if source is None or source == of
        ]
        return min(lows, default=None)

    def drop(self, source: int, below: int, gone: Set[int]) -> None:
        """Forget the rows of a source with a number below one, and all of the sources `gone`."""
        tables = []
        for table in self._tables:
            spans = table.spans
            low, high = spans.get(source, (below, below))
            others = spans.keys() - {source}
            if low >= below and not others & gone:
                tables.append(table)
            elif high < below and others <= gone:
                continue
            else:
                rows = table.left()
                is_dropped = (rows["source"] == source) & (rows["number"] < below)
                if others & gone:
                    is_dropped |= np.isin(rows["source"], list(gone))
                if not is_dropped.all():
                    tables.append(_Table(rows[~is_dropped]))
        self._tables = tables
        self._dead = {
            number: (at_ms, of)
            for number, (at_ms, of) in self._dead.items()
            if not (of in gone or (of == source and number < below))
        }

    def replace(self, change: Callable[[Rows], Rows]) -> None:
        """Put what `change` makes of the waiting rows in their place."""
        everything = joined(self.parts())
        rows = change(everything[self.is_alive(everything)])
        self._tables, self._dead = [], {}
        self.add(rows)
