"""Writing runs, in a thread: of what is in memory, and of other runs. Decides nothing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.derived.timer.rows import FROM_LOG, Rows, in_order, joined
from apps.engine.derived.timer.runfile import BLOCK_ROWS_MAX, Run, RunPlace
from apps.engine.limits import MIB

_BLOCK_BYTES = MIB

Blocks = Iterator[tuple[Rows, bytes]]
IsDone = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """One run to be written. `replaced` runs and all parcels below `parcels_from` go into it."""

    parcels_from: int | None
    replaced: tuple[Run, ...]
    write: Callable[[], RunPlace | None]
    place: RunPlace | None = None
    is_cancelled: bool = False

    def run(self) -> None:
        """Write the run; for a thread. Raises StoreFull, WriteFailed, SyncFailed, StoreDamaged."""
        self.place = self.write()


def blocks_of(rows: Rows, read: Callable[[Rows], bytes]) -> Blocks:
    """Cut rows, ordered by due time, into blocks of a run and read their records."""
    ends = np.cumsum(rows["size_bytes"], dtype=np.int64)
    start = 0
    while start < len(rows):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + _BLOCK_BYTES, side="right"))
        stop = max(start + 1, min(fitting, start + BLOCK_ROWS_MAX))
        yield rows[start:stop], read(rows[start:stop])
        start = stop


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """Rows in pieces, of which those from the log with a number `below` that wait are meant."""

    parts: Sequence[Rows]
    below: int
    is_done: IsDone

    def rows(self) -> Rows:
        """Return them, in no order; a copy of a million takes longer than the loop may be held."""
        found = []
        for part in self.parts:
            rows = part[(part["source"] == FROM_LOG) & (part["number"] < self.below)]
            found.append(rows[~self.is_done(rows["number"], rows["due_ms"])])
        return joined(found)


def flushed(chosen: Chosen, read: Callable[[Rows], bytes]) -> Blocks:
    """Iterate over the blocks of chosen rows."""
    return blocks_of(in_order(chosen.rows(), "due_ms"), read)


def merged(
    runs: Sequence[Run],
    is_done: IsDone,
    read: Callable[[Rows], bytes],
) -> Blocks:
    """Iterate over the blocks of what still waits in several runs, a block of each in memory."""
    left: dict[int, Rows] = {}
    following = {run.number: 0 for run in runs}
    while True:
        for run in runs:
            while not len(left.get(run.number, ())) and following[run.number] < run.block_count:
                rows = run.block(following[run.number], wait=True)
                left[run.number] = rows[~is_done(rows["number"], rows["due_ms"])]
                following[run.number] += 1
        held = [rows for rows in left.values() if len(rows)]
        if not held:
            return
        # What is due later than the end of a block may come behind the next one of its run.
        until_ms = min(int(rows["due_ms"][-1]) for rows in held)
        parts = []
        for number, rows in left.items():
            count = int(np.searchsorted(rows["due_ms"], until_ms, side="right"))
            parts.append(rows[:count])
            left[number] = rows[count:]
        yield from blocks_of(in_order(joined(parts), "due_ms"), read)
