"""Equal-size files in a row, addressed as one range of bytes. Knows offsets, not what is in them.

A segment is made under another name, allocated, synced and renamed, so that a file with a
segment's name always has a segment's length, whenever the power is cut.
"""

import re
import threading
from collections.abc import Iterator, Sequence

from apps.engine.errors import EngineError, StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Buffer, Disk, File
from apps.engine.files.refusals import write_refusal

_NAME = re.compile(r"[0-9]{20}")
_UNFINISHED = ".new"


class Segments:
    """The segments of one directory: bytes `start` up to, not with, `end`.

    Reading and syncing may happen in several threads, and so may `extend`.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        segment_bytes: int,
        failpoints: Failpoints,
        start: int = 0,
    ) -> None:
        """List what is there from `start` on, and change nothing; below it all was given up.

        Raises StoreDamaged when a segment between others is missing, or one has another length.
        """
        self.segment_bytes = segment_bytes
        self._disk = disk
        self._directory = directory
        self._failpoints = failpoints
        self._mutex = threading.Lock()
        bases = self._bases(start)
        self.start = bases[0] if bases else start
        for number, base in enumerate(bases):
            expected = self.start + number * segment_bytes
            if base != expected or base % segment_bytes:
                raise StoreDamaged(f"{self.path(expected)} is missing, {base:020d} is not")
        # By their first byte: numbers would shift under a reading thread when the front goes.
        self._files: dict[int, File | None] = dict.fromkeys(bases)
        for base in bases:
            size_bytes = self._file(base).size()
            if size_bytes != segment_bytes:
                raise StoreDamaged(
                    f"{self.path(base)} is {size_bytes} bytes long and not {segment_bytes}"
                )
        self._end = self.start + len(bases) * segment_bytes

    @property
    def end(self) -> int:
        """Return the offset behind the last segment; `start` when there is none."""
        return self._end

    def base(self, offset: int) -> int:
        """Return where the segment that holds `offset` starts."""
        return offset - offset % self.segment_bytes

    def path(self, offset: int) -> str:
        """Return the path of the segment that holds `offset`."""
        return f"{self._directory}/{self.base(offset):020d}"

    def extend(self, end: int) -> None:
        """Make segments up to at least `end`, on the disk with their names when this returns.

        Raises StoreFull with nothing changed, WriteFailed or SyncFailed.
        """
        with self._mutex:
            while self._end < end:
                self._files[self._end] = self._create(self.path(self._end))
                self._end += self.segment_bytes

    def give_up(self, start: int) -> list[File]:
        """Begin at `start`, where a segment does, from here on; return the files below, open.

        Whoever still reads below must be done: the caller closes the files.
        """
        assert start % self.segment_bytes == 0
        assert start < self._end
        with self._mutex:
            self.start = max(self.start, start)
            gone = [self._files.pop(base) for base in list(self._files) if base < self.start]
        return [file for file in gone if file is not None]

    def given_up(self) -> list[int]:
        """Return where the segments start that lie below `start` and are still on the disk."""
        return [base for base in self._bases(0) if base < self.start]

    def unlink(self, base: int) -> None:
        """Remove the file of a segment that was given up; its length is never changed."""
        assert base < self.start
        self._disk.remove(self.path(base))

    def settle_names(self) -> None:
        """Return when what was unlinked is gone on the disk too. Raises SyncFailed."""
        self._disk.sync_directory(self._directory)

    def discard_unfinished(self) -> None:
        """Remove what a crash left of segments in the making, and settle all names on the disk."""
        for name in self._disk.names(self._directory):
            if name.endswith(_UNFINISHED):
                self._disk.remove(f"{self._directory}/{name}")
        self._disk.sync_directory(self._directory)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write the buffers end to end; they must lie in one segment."""
        position = offset % self.segment_bytes
        file = self._files.get(offset - position) or self._file_at(offset)
        file.write(position, buffers)

    def read_into(self, offset: int, target: memoryview, *, wait: bool = True) -> None:
        """Fill `target`, from as many segments as it takes. Raises NotCached or StoreDamaged."""
        while target:
            position = offset % self.segment_bytes
            part = target[: self.segment_bytes - position]
            found = self._file_at(offset).read_into(position, part, wait=wait)
            if found < len(part):
                raise StoreDamaged(f"{self.path(offset)} ends before its length")
            offset += len(part)
            target = target[len(part) :]

    def data(self, start: int) -> Iterator[tuple[int, int]]:
        """Iterate over the parts from `start` on that may hold other bytes than zeros.

        Each lies in one segment; what is between them reads as zeros.
        """
        while start < self._end:
            base = self.base(start)
            found = self._file_at(base).data_from(start - base)
            if found is None:
                start = base + self.segment_bytes
            else:
                first, start = base + found[0], base + found[1]
                yield first, start

    def files(self, start: int, stop: int) -> list[File]:
        """Return the files that hold the bytes `start` up to, not with, `stop`, in order."""
        bases = range(self.base(start), stop, self.segment_bytes)
        return [self._file_at(base) for base in bases]

    def close(self) -> None:
        """Close the files. A second call does nothing."""
        for file in list(self._files.values()):
            if file is not None:
                file.close()

    def _bases(self, start: int) -> list[int]:
        names = filter(_NAME.fullmatch, self._disk.names(self._directory))
        return [base for base in map(int, names) if base >= start]

    def _file_at(self, offset: int) -> File:
        base = self.base(offset)
        file = self._files.get(base)
        if file is None:
            if base not in self._files:
                raise StoreDamaged(f"{self.path(offset)} is missing")
            file = self._file(base)
        return file

    def _file(self, base: int) -> File:
        with self._mutex:
            if base not in self._files:
                raise StoreDamaged(f"{self.path(base)} is missing")
            file = self._files[base]
            if file is None:
                file = self._files[base] = self._disk.open(self.path(base))
            return file

    def _create(self, path: str) -> File:
        unfinished = path + _UNFINISHED
        file = self._disk.open(unfinished, create=True)
        try:
            try:
                self._failpoints.hit("files.allocate")
            except OSError as error:
                raise write_refusal(error, f"cannot allocate {path}") from error
            file.allocate(self.segment_bytes)
            file.sync()
            self._disk.rename(unfinished, path)
            self._disk.sync_directory(self._directory)
        except EngineError:
            file.close()
            self._disk.remove(unfinished)
            raise
        return file
