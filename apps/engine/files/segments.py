"""Equal-size files in a row, addressed as one range of bytes. Knows offsets, not what is in them.

A segment is made under another name, allocated, synced and renamed, so that a file with a
segment's name always has a segment's length, whenever the power is cut.
"""

import re
import threading
from collections.abc import Sequence

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
        self, disk: Disk, directory: str, *, segment_bytes: int, failpoints: Failpoints
    ) -> None:
        """List what is there and change nothing.

        Raises StoreDamaged when a segment between others is missing, or one has another length.
        """
        self.segment_bytes = segment_bytes
        self._disk = disk
        self._directory = directory
        self._failpoints = failpoints
        self._mutex = threading.Lock()
        names = [name for name in disk.names(directory) if _NAME.fullmatch(name)]
        bases = [int(name) for name in names]
        self.start = bases[0] if bases else 0
        for number, base in enumerate(bases):
            expected = self.start + number * segment_bytes
            if base != expected or base % segment_bytes:
                raise StoreDamaged(
                    f"{directory}/{expected:020d} is missing, {names[number]} is not"
                )
        self._files: list[File | None] = [None] * len(bases)
        for number, name in enumerate(names):
            size_bytes = self._file(number).size()
            if size_bytes != segment_bytes:
                raise StoreDamaged(
                    f"{directory}/{name} is {size_bytes} bytes long and not {segment_bytes}"
                )

    @property
    def end(self) -> int:
        """Return the offset behind the last segment; `start` when there is none."""
        return self.start + len(self._files) * self.segment_bytes

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
            while self.end < end:
                self._files.append(self._create(self.path(self.end)))

    def discard_unfinished(self) -> None:
        """Remove what a crash left of segments in the making, and settle all names on the disk."""
        for name in self._disk.names(self._directory):
            if name.endswith(_UNFINISHED):
                self._disk.remove(f"{self._directory}/{name}")
        self._disk.sync_directory(self._directory)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write the buffers end to end; they must lie in one segment."""
        self._file_at(offset).write(offset % self.segment_bytes, buffers)

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

    def files(self, start: int, stop: int) -> list[File]:
        """Return the files that hold the bytes `start` up to, not with, `stop`, in order."""
        bases = range(self.base(start), stop, self.segment_bytes)
        return [self._file_at(base) for base in bases]

    def close(self) -> None:
        """Close the files. A second call does nothing."""
        for file in self._files:
            if file is not None:
                file.close()

    def _file_at(self, offset: int) -> File:
        number = (offset - self.start) // self.segment_bytes
        if not 0 <= number < len(self._files):
            raise StoreDamaged(f"{self.path(offset)} is missing")
        return self._files[number] or self._file(number)

    def _file(self, number: int) -> File:
        with self._mutex:
            file = self._files[number]
            if file is None:
                path = self.path(self.start + number * self.segment_bytes)
                file = self._files[number] = self._disk.open(path)
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
