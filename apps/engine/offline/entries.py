"""Entries of one consume queue out of its files, as a checkpoint promised them.

Knows entries and files of entries; a file's name says which entry is its first, so no setting has
to be known.
"""

from bisect import bisect_right
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.layout import QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from apps.engine.derived.names import queue_directory
from apps.engine.errors import StoreDamaged
from apps.engine.files.backend import Disk

IsBefore = Callable[[int, np.void], bool | None]
"""Says of a queue offset and its entry whether it lies before what is looked for; None: unknown."""


class EntryFiles:
    """The files of one queue, listed once."""

    def __init__(self, disk: Disk, topic: str, queue: int) -> None:
        """List what is there."""
        self._disk = disk
        self._directory = queue_directory(topic, queue)
        names = [name for name in disk.names(self._directory) if name.isdigit()]
        self._bases = [int(name) // QUEUE_ENTRY_BYTES for name in names]

    @property
    def first(self) -> int | None:
        """Return the first queue offset a file could have an entry for; None without any file."""
        return self._bases[0] if self._bases else None

    def read(self, start: int, stop: int) -> NDArray[np.void]:
        """Return the entries of queue offsets `start` up to, not with, `stop`: QUEUE_ENTRY[n].

        Raises StoreDamaged where files lack some of them; they may have been removed meanwhile.
        """
        found = np.empty(stop - start, dtype=QUEUE_ENTRY)
        view = found.view(np.uint8).data if len(found) else memoryview(b"")
        at = start
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
