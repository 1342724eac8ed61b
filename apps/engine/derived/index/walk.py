"""Follow the chains of one key through the index files, the newest entry first.

Knows entries; a hash's word only, and no record. What was walked is remembered: a cold read ends a
step, and the next step goes on there.
"""

import struct

from apps.engine.derived.consumequeue import ColdRead
from apps.engine.derived.index import layout
from apps.engine.derived.index.indexfile import IndexDamaged, IndexFile
from apps.engine.derived.index.keyindex import KeyIndex

_ENTRY = struct.Struct(">iqii")
# Entries read together: those of one chain are often near each other, where a key is common.
_BLOCK_ENTRIES = 128
assert _ENTRY.size == layout.ENTRY_BYTES


class KeyWalk:
    """Log offsets of records that may have a key, the newest first, each once.

    `from_ms` and `to_ms` bound the times, the second excluded; an entry's time is that of its
    second. `before` is a log offset that all lie below. `has_gap` says that a file was passed over
    because it does not verify, and `walked` counts the entries that were looked at.
    """

    def __init__(
        self,
        index: KeyIndex,
        topic: str,
        key: str,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        before: int | None = None,
    ) -> None:
        """Begin at the newest file."""
        self._index = index
        self._hash = layout.key_hash(topic, key)
        self._from_ms = from_ms
        self._to_ms = to_ms
        self._before = before
        self._files = [file for file in index.newest_first() if self._overlaps(file)]
        self._number: int | None = None
        self._block = b""
        self._block_first = 0
        self._last_offset = -1
        self.has_gap = False
        self.walked = 0

    @property
    def is_over(self) -> bool:
        """Say whether every entry was looked at that could be the key's."""
        return not self._files

    def step(self, *, entries_max: int, found_max: int, wait: bool) -> list[int]:
        """Walk on over up to `entries_max` entries, until so many offsets are found.

        Raises ColdRead when `wait` is false and the disk would have to be waited for; offsets
        found before it are then returned first, and it is raised by the next call.
        """
        found: list[int] = []
        stop = self.walked + entries_max
        while self._files and self.walked < stop and len(found) < found_max:
            file = self._files[0]
            try:
                self._walk(file, stop, found, found_max, wait=wait)
            except ColdRead:
                if found:
                    break
                raise
            except IndexDamaged as error:
                if not file.is_gone:
                    self._index.condemn(file, str(error))
                    self.has_gap = True
                self._leave()
        return found

    def _walk(
        self, file: IndexFile, stop: int, found: list[int], found_max: int, *, wait: bool
    ) -> None:
        if self._number is None:
            slot = self._hash % file.slot_count
            number = file.newest(slot, wait=wait)
            if not 0 <= number < file.count:
                raise IndexDamaged(f"slot {slot} names entry {number} of {file.count}")
            self._number = number
        while self._number and self.walked < stop and len(found) < found_max:
            hash_, offset, seconds, previous = self._entry(file, self._number, wait=wait)
            if not 0 <= previous < self._number or hash_ % file.slot_count != (
                self._hash % file.slot_count
            ):
                raise IndexDamaged(f"entry {self._number} is in no chain")
            self.walked += 1
            self._number = previous
            begin_ms = file.begin_ms + 1000 * seconds
            if self._from_ms is not None and begin_ms + 999 < self._from_ms:
                # Those behind it are older still.
                self._number = 0
            elif hash_ == self._hash and self._is_early(offset, begin_ms):
                # A record may have a key twice; its entries follow one another.
                if offset != self._last_offset:
                    found.append(offset)
                self._last_offset = offset
        if not self._number:
            self._leave()

    def _is_early(self, offset: int, begin_ms: int) -> bool:
        return (self._to_ms is None or begin_ms < self._to_ms) and (
            self._before is None or offset < self._before
        )

    def _leave(self) -> None:
        self._files.pop(0)
        self._number = None
        self._block = b""

    def _entry(self, file: IndexFile, number: int, *, wait: bool) -> tuple[int, int, int, int]:
        at = (number - self._block_first) * layout.ENTRY_BYTES
        if not 0 <= at < len(self._block):
            first = max(number - _BLOCK_ENTRIES + 1, 1)
            self._block = file.entries(first, number + 1, wait=wait).tobytes()
            self._block_first = first
            at = (number - first) * layout.ENTRY_BYTES
        hash_, offset, seconds, previous = _ENTRY.unpack_from(self._block, at)
        return hash_, offset, seconds, previous

    def _overlaps(self, file: IndexFile) -> bool:
        is_early = self._to_ms is not None and file.begin_ms >= self._to_ms
        is_late = self._from_ms is not None and file.end_ms < self._from_ms
        return not is_early and not is_late
