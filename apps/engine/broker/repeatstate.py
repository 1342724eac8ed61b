"""Which numbered messages were stored, and where. Knows producers' numbers and places, no bytes.

What is remembered is bounded, and what was forgotten is known to be: a number below it is neither
taken for new nor for a repeat.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.careevents import Sequenced
from apps.engine.errors import SequenceTooOld
from apps.engine.limits import SEQUENCE_RECEIPTS_MAX, SEQUENCE_RUNS_MAX, SEQUENCES_MAX

# Columns of what is remembered of a producer in a topic: a run of numbers, and where it lies.
_FIRST, _LAST, _QUEUE, _OFFSET, _AT_MS = range(5)
_NO_ROWS = np.empty((0, 5), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """Where numbered messages are, n each: `is_known`, and then queue, queue offset, wall time.

    An offset of -1 is that of a message that was stored to wait for its time.
    """

    is_known: NDArray[np.bool_]
    queues: NDArray[np.int64]
    offsets: NDArray[np.int64]
    at_ms: NDArray[np.int64]


class _Sequence:
    """The runs of a producer's numbers in a topic, by their first: int64[n, 5], disjoint.

    `floor` is the first number above all that was forgotten.
    """

    __slots__ = ("floor", "rows")

    def __init__(self, floor: int = 0, rows: NDArray[np.int64] = _NO_ROWS) -> None:
        self.floor = floor
        self.rows = rows

    def add(self, rows: NDArray[np.int64]) -> None:
        """Remember runs, and forget the lowest where there are too many."""
        is_next = not len(self.rows) or rows[0, _FIRST] > self.rows[-1, _LAST]
        rows = np.concatenate((self.rows, rows))
        if not is_next:
            rows = rows[np.argsort(rows[:, _FIRST], kind="stable")]
        over = len(rows) - SEQUENCE_RUNS_MAX
        if over > 0:
            self.floor = int(rows[over - 1, _LAST]) + 1
            rows = rows[over:]
        self.rows = rows

    def find(self, numbers: NDArray[np.int64]) -> Places:
        """Return where numbers are, int64[n]; raise SequenceTooOld for one below the floor."""
        if not len(self.rows):
            return _unknown(len(numbers))
        at = np.searchsorted(self.rows[:, _FIRST], numbers, side="right") - 1
        found = self.rows[at]
        is_known = (at >= 0) & (numbers <= found[:, _LAST])
        is_lost = ~is_known & (numbers < self.floor)
        if is_lost.any():
            raise SequenceTooOld(
                f"whether number {int(numbers[int(np.argmax(is_lost))])} was stored is forgotten; "
                f"numbers from {self.floor} on are remembered"
            )
        offsets = found[:, _OFFSET]
        return Places(
            is_known=is_known,
            queues=found[:, _QUEUE],
            offsets=np.where(offsets < 0, -1, offsets + numbers - found[:, _FIRST]),
            at_ms=found[:, _AT_MS],
        )


class RepeatState:
    """Numbers by producer and topic; the ones that were not used for longest are forgotten first.

    A producer that was forgotten whole begins anew, as one that is new does.
    """

    def __init__(self) -> None:
        """Start with no producer."""
        self._sequences: OrderedDict[tuple[str, str], _Sequence] = OrderedDict()
        # What producers of delayed messages were told: due time and recall handle, by number.
        self._receipts: OrderedDict[tuple[str, str, int], tuple[int, str]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many producers are known, each counted once for every topic."""
        return len(self._sequences)

    def apply(self, event: Sequenced, *, at_ms: int) -> None:
        """Carry out an event that was made at a wall time."""
        key = (event.producer_id, event.topic)
        sequence = self._sequences.get(key)
        if sequence is None:
            sequence = self._sequences[key] = _Sequence()
            if len(self._sequences) > SEQUENCES_MAX:
                self._sequences.popitem(last=False)
        else:
            self._sequences.move_to_end(key)
        rows = np.empty((len(event.rows), 5), dtype=np.int64)
        rows[:, : _LAST + 1] = event.rows[:, :2]
        rows[:, _QUEUE] = event.queue
        rows[:, _OFFSET] = event.rows[:, 2]
        rows[:, _AT_MS] = at_ms
        sequence.add(rows if len(rows) == 1 else rows[np.argsort(rows[:, _FIRST], kind="stable")])
        if event.due_ms:
            self._keep_receipts(event)

    def _keep_receipts(self, event: Sequenced) -> None:
        handles = event.handles or ("",) * len(event.due_ms)
        told = zip(numbers_of(event.rows).tolist(), event.due_ms, handles, strict=True)
        for number, due_ms, handle in told:
            self._receipts[event.producer_id, event.topic, number] = (due_ms, handle)
        while len(self._receipts) > SEQUENCE_RECEIPTS_MAX:
            self._receipts.popitem(last=False)

    def find(self, producer_id: str, topic: str, numbers: NDArray[np.int64]) -> Places:
        """Return where a producer's messages are, by their numbers int64[n].

        Raises SequenceTooOld for a number that may have been stored and was forgotten.
        """
        sequence = self._sequences.get((producer_id, topic))
        return _unknown(len(numbers)) if sequence is None else sequence.find(numbers)

    def receipt(self, producer_id: str, topic: str, number: int) -> tuple[int, str] | None:
        """Return due time and recall handle of a delayed message; None where it is forgotten."""
        return self._receipts.get((producer_id, topic, number))

    def dump(self) -> dict[str, object]:
        """Return everything as plain values, for the checkpoint."""
        return {
            "sequences": [
                [producer_id, topic, sequence.floor, sequence.rows.tolist()]
                for (producer_id, topic), sequence in self._sequences.items()
            ],
            "receipts": [[*key, *told] for key, told in self._receipts.items()],
        }

    def load(self, content: dict[str, Iterable[Any]]) -> None:
        """Take up what `dump` gave. Raises KeyError, TypeError or ValueError for anything else."""
        for producer_id, topic, floor, rows in content["sequences"]:
            kept = np.array(rows, dtype=np.int64).reshape(-1, 5)
            self._sequences[producer_id, topic] = _Sequence(floor, kept)
        for producer_id, topic, number, due_ms, handle in content["receipts"]:
            self._receipts[producer_id, topic, number] = (due_ms, handle)


def numbers_of(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of runs, one after the other: int64[n] of int64[m, 2 or more]."""
    return np.concatenate([np.arange(first, last + 1) for first, last in rows[:, :2].tolist()])


def _unknown(count: int) -> Places:
    nothing = np.full(count, -1, dtype=np.int64)
    return Places(
        is_known=np.zeros(count, dtype=bool), queues=nothing, offsets=nothing, at_ms=nothing
    )
