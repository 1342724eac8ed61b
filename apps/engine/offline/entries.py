"""Entries of one consume queue out of its files, as a checkpoint promised them.

Knows entries and files of entries; a file's name says which entry is its first, so no setting has
to be known. The last entries of a lite topic are in the checkpoint.
"""

from bisect import bisect_right
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.layout import QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from apps.engine.codec.litenames import is_lite
from apps.engine.derived.names import queue_directory
from apps.engine.derived.queueset import CHECKPOINT, QueueRow
from apps.engine.errors import StoreDamaged
from apps.engine.files import atomic
from apps.engine.files.backend import Disk

IsBefore = Callable[[int, np.void], bool | None]
"""Says of a queue offset and its entry whether it lies before what is looked for; None: unknown."""


_NOTHING = np.empty(0, dtype=QUEUE_ENTRY)


def _tail_of(disk: Disk, topic: str, queue: int) -> tuple[int, NDArray[np.void]]:
    """Return where the entries begin that the checkpoint itself has of a queue, and those."""
    content = atomic.load(disk, CHECKPOINT)
    for row in () if content is None else content["queues"]:
        if row[0] == topic and row[1] == queue:
            found = QueueRow.of(row)
            return found.filed, np.frombuffer(found.tail, dtype=QUEUE_ENTRY)
    return 0, _NOTHING


class EntryFiles:
    """The files of one queue, listed once."""

    def __init__(self, disk: Disk, topic: str, queue: int) -> None:
        """List what is there."""
        self._disk = disk
        self._directory = queue_directory(topic, queue)
        names = [name for name in disk.names(self._directory) if name.isdigit()]
        self._bases = [int(name) // QUEUE_ENTRY_BYTES for name in names]
        self._tail_from, self._tail = 0, _NOTHING
        if is_lite(topic):
            self._tail_from, self._tail = _tail_of(disk, topic, queue)

    @property
    def first(self) -> int | None:
        """Return the first queue offset there could be an entry for; None where there is none."""
        if not self._bases:
            return self._tail_from if len(self._tail) else None
        return self._bases[0]

    def read(self, start: int, stop: int) -> NDArray[np.void]:
        """Return the entries of queue offsets `start` up to, not with, `stop`: QUEUE_ENTRY[n].

        Raises StoreDamaged where files lack some of them; they may have been removed meanwhile.
        """
        found = np.empty(stop - start, dtype=QUEUE_ENTRY)
        view = found.view(np.uint8).data if len(found) else memoryview(b"")
        at = start
        if stop > self._tail_from and len(self._tail):
            first = max(start, self._tail_from)
            behind = self._tail[first - self._tail_from : stop - self._tail_from]
            if first + len(behind) < stop:
                raise StoreDamaged(f"{self._directory} has no entry of queue offset {stop - 1}")
            found[first - start :] = behind
            stop = first
        while at < stop:
            number = bisect_right(self._bases, at) - 1
            if number < 0:
                raise StoreDamaged(f"{self._directory} has no entry of queue offset {at}")
            following = self._bases[number + 1] if number + 1 < len(self._bases) else stop
            part_stop = min(stop, following)
            part = view[(at - start) * QUEUE_ENTRY_BYTES : (part_stop - start) * QUEUE_ENTRY_BYTES]
            self._read_file(self._bases[number], at, part)
            at = part_stop
        return found

    def halved(self, low: int, high: int, is_before: IsBefore) -> int:
        """Return the first queue offset from `low` on that is not before; `high` for none.

        Of what is damaged nobody knows: its next neighbour speaks for it. Raises as `read`.
        """
        while low < high:
            middle = at = (low + high) // 2
            found = is_before(at, self.read(at, at + 1)[0])
            while found is None and at + 1 < high:
                at += 1
                found = is_before(at, self.read(at, at + 1)[0])
            if found:
                low = at + 1
            else:
                high = middle
        return low

    def _read_file(self, base: int, start: int, target: memoryview) -> None:
        path = f"{self._directory}/{base * QUEUE_ENTRY_BYTES:020d}"
        try:
            file = self._disk.open(path)
        except FileNotFoundError as error:
            raise StoreDamaged(f"{path} is not there any more") from error
        try:
            if file.read_into((start - base) * QUEUE_ENTRY_BYTES, target) < len(target):
                raise StoreDamaged(f"{path} is shorter than its checkpoint says")
        finally:
            file.close()
