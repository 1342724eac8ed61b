"""Up to where everything of a queue is done. Knows offsets only."""

from bisect import bisect_left
from collections.abc import Sequence


class DonePrefix:
    """Follows the lowest offset that is not done, while offsets are done in any order."""

    def __init__(self, offsets: Sequence[int], end: int) -> None:
        """Take the offsets that exist, rising, and one past the last of the queue."""
        self._offsets = offsets
        self._end = end
        self._index = 0
        self._done: set[int] = set()

    @property
    def lowest_undone(self) -> int:
        """Return the lowest offset not done, the queue's end when all are."""
        return self.offset_at(self._index)

    def offset_at(self, index: int) -> int:
        """Return the offset of an index, the queue's end for the index behind the last."""
        return self._offsets[index] if index < len(self._offsets) else self._end

    @property
    def index(self) -> int:
        """Return the index of the lowest offset not done."""
        return self._index

    def index_of(self, offset: int) -> int:
        """Return the index of an offset, or of the next one that exists."""
        return bisect_left(self._offsets, offset)

    def done(self, offset: int) -> None:
        """Note that an offset is done."""
        self._done.add(offset)
        while self._index < len(self._offsets) and self._offsets[self._index] in self._done:
            self._done.discard(self._offsets[self._index])
            self._index += 1

    def move_to(self, offset: int) -> None:
        """Go on at an offset: what is below counts as done, nothing from it on does."""
        self._done = {done for done in self._done if done < offset}
        self._index = self.index_of(offset)
