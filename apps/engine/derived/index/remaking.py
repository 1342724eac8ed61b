"""A damaged index file made again while its store is open. Knows frames and files; no loop.

The entries of a file follow from the log. They are made in memory, and take the file's place only
where they have the checksum of what was written: then every number in them is what it was.
"""

from collections.abc import Iterator

from apps.engine.derived.filecache import FileCache
from apps.engine.derived.index import layout
from apps.engine.derived.index.incoming import Incoming, Rows
from apps.engine.derived.index.indexfile import DIRECTORY, IndexFile
from apps.engine.derived.stretch import Stretch
from apps.engine.files.backend import Disk
from apps.engine.log.commitlog import CommitLog


class Remaking:
    """The entries that a file had when this was made, from the log once more."""

    def __init__(self, disk: Disk, file: IndexFile, before: IndexFile | None) -> None:
        """Take note of what is wanted; `before` is the file before it, None where it is the first.

        A record's keys may be spread over both.
        """
        self.file = file
        self._disk = disk
        self._count, self._crc, self._flushed = file.count, file.crc, file.flushed
        is_shared = before is not None and before.end_offset == file.begin_offset
        self._shared = before.end_repeat if before is not None and is_shared else 0
        self._made = IndexFile.new(
            FileCache(disk),
            name=file.name,
            slot_count=file.slot_count,
            capacity=file.capacity,
            begin_ms=file.begin_ms,
            begin_offset=file.begin_offset,
            dispatch_from=file.dispatch_from,
        )

    @property
    def is_proven(self) -> bool:
        """Say whether what was made is what the file had."""
        return (self._made.count, self._made.crc) == (self._count, self._crc)

    @property
    def path(self) -> str:
        """Return where the file lies."""
        return self.file.path

    def look(self) -> None:
        """Do nothing: all of a file is made again."""

    def steps(self, log: CommitLog) -> Iterator[None]:
        """Make the entries, one stretch of the log a step; none where it begins too late."""
        if log.log_start > self.file.dispatch_from:
            return
        incoming = Incoming()
        for frames in log.stretches(self.file.dispatch_from):
            incoming.add_stretch(Stretch(frames))
            rows = incoming.take()
            first = int((rows.log_offsets < self.file.begin_offset).sum())
            if first < len(rows.hashes) and rows.log_offsets[first] == self.file.begin_offset:
                first += self._shared
            self._add(rows, slice(first, first + self._count - self._made.count))
            if self._made.count == self._count:
                return
            yield

    def _add(self, rows: Rows, part: slice) -> None:
        if len(rows.hashes[part]):
            self._made.append(rows.hashes[part], rows.log_offsets[part], rows.times_ms[part])

    def write(self) -> None:
        """Write the entries that were in the file; for a thread. Raises StoreFull, WriteFailed."""
        self._disk.make_directory(DIRECTORY)
        file = self._disk.open(self.file.path, create=True)
        try:
            entries = self._made.entries(1, self._flushed, wait=True)
            position = layout.entry_position(self.file.slot_count, 1)
            file.write(position, [entries.tobytes()])
            file.sync()
        finally:
            file.close()

    def take_place(self) -> bool:
        """Let the file be read again; False where it was written to or dropped meanwhile.

        Its slots and header are written by the next checkpoint.
        """
        file = self.file
        if file.is_gone or file.flushed != self._flushed:
            return False
        if file.slots is None:
            file.slots = self._made.slots
        file.stored = 1
        return True
