"""One row for each waiting message: when it is due, its number, and where its bytes lie.

Knows arrays only. A row is at most 56 bytes in memory, whatever the message is.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# `at_ms` is the wall time at which it is delivered: when it is due, and later where a jump of the
# clock holds it back. `position` is a byte of `source`: the log, or a run by its number. `crc` is
# that of the whole record, where the source is a run.
ROW = np.dtype(
    [
        ("at_ms", np.int64),
        ("due_ms", np.int64),
        ("number", np.int64),
        ("position", np.int64),
        ("tag_hash", np.int64),
        ("size_bytes", np.int32),
        ("place", np.int32),
        ("source", np.int32),
        ("crc", np.uint32),
    ]
)
# Rows, ROW[n]: `Any`, because a structured array has no better type.
Rows = NDArray[Any]
FROM_LOG = -1
# The number of a message is that of its parcel times this, plus its place there.
PARCEL_MESSAGES_MAX = 65_536

assert ROW.itemsize == 56


def in_order(rows: Rows, key: str = "at_ms") -> Rows:
    """Return the rows by `key`, then by number.

    Rows mostly come as one or two ordered stretches, which a stable sort joins in linear time; by
    number it is sorted only where that left equals in another order.
    """
    found = rows[np.argsort(np.ascontiguousarray(rows[key]), kind="stable")]
    values, numbers = found[key], found["number"]
    if ((values[1:] == values[:-1]) & (numbers[1:] < numbers[:-1])).any():
        return rows[np.lexsort((rows["number"], rows[key]))]
    return found


def joined(parts: list[Rows]) -> Rows:
    """Return the rows of all parts, end to end."""
    return np.concatenate(parts) if parts else np.empty(0, dtype=ROW)


class Places:
    """Topics and queues by a small number, the same for the life of the process."""

    def __init__(self) -> None:
        """Start with none."""
        self._places: list[tuple[str, int]] = []
        self._numbers: dict[tuple[str, int], int] = {}

    def number(self, topic: str, queue: int) -> int:
        """Return the number of a place, a new one where it has none."""
        number = self._numbers.setdefault((topic, queue), len(self._places))
        if number == len(self._places):
            self._places.append((topic, queue))
        return number

    def place(self, number: int) -> tuple[str, int]:
        """Return the topic and queue of a number that was given out."""
        return self._places[number]

    def of_topic(self, topic: str) -> list[int]:
        """Return the numbers of a topic's queues."""
        return [number for (name, _), number in self._numbers.items() if name == topic]
