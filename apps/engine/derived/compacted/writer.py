"""Write a file of kept messages, block by block. Knows one file, and no order but that of calls.

For a thread. The file has another name until it is whole and on the disk.
"""

import numpy as np

from apps.engine.codec.checksum import crc32
from apps.engine.derived.compacted import layout
from apps.engine.derived.compacted.layout import BLOCK, ROW, TOMBSTONE, Rows
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk, File
from apps.engine.files.refusals import write_refusal


class PartWriter:
    """A file that is being written; `finish` or `abandon` ends it."""

    def __init__(
        self,
        disk: Disk,
        topic: str,
        queue: int,
        generation: int,
        *,
        store_id: str,
        failpoints: Failpoints,
    ) -> None:
        """Make the file. Raises StoreFull or WriteFailed."""
        self._disk = disk
        self._topic, self._queue, self._generation = topic, queue, generation
        self._failpoints = failpoints
        self._directory = layout.directory(topic, queue)
        self.path = layout.part_path(topic, queue, generation)
        disk.make_directory(self._directory)
        self._aside = f"{self.path}.new"
        self._file: File | None = disk.open(self._aside, create=True)
        self._file.truncate(0)
        secret = bytes.fromhex(store_id)
        self._at = 0
        self._write(layout.HEADER.pack(layout.MAGIC, layout.VERSION, 0, secret, generation))
        self._index: list[tuple[int, int, int, int, int, int]] = []
        self._rows: list[Rows] = []
        self._records: list[bytes] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._oldest_tombstone_ms = -1

    def add(self, rows: Rows, records: memoryview) -> None:
        """Add messages behind those that are there. Raises StoreFull or WriteFailed."""
        if not len(rows):
            return
        tombs = rows["store_time_ms"][(rows["flags"] & TOMBSTONE) != 0]
        if len(tombs) and self._oldest_tombstone_ms < 0:
            self._oldest_tombstone_ms = int(tombs.min())
        at = first = 0
        start = 0
        for number, size in enumerate(rows["size_bytes"].tolist()):
            is_full = self._waiting_rows + number - first == layout.BLOCK_ROWS_MAX
            waiting = self._waiting_bytes + at - start
            if is_full or (waiting and waiting + size > layout.BLOCK_BYTES_MAX):
                self._keep(rows[first:number], records[start:at])
                self._end_block()
                first, start = number, at
            at += size
        self._keep(rows[first:], records[start:at])

    def finish(self, *, begin: int, stop: int) -> int:
        """Bring the file to the disk under its name; return its size.

        It covers the queue from `begin` up to `stop`. Raises StoreFull, WriteFailed or SyncFailed.
        """
        assert self._file is not None
        self._end_block()
        name = self._topic.encode()
        place = layout.PLACE.pack(self._queue, len(name), len(self._index)) + name
        index = place + np.array(self._index, dtype=BLOCK).tobytes()
        start = self._at
        self._write(index)
        trailer = layout.TRAILER.pack(
            layout.END_MAGIC, layout.VERSION, 0, self._generation, begin, stop,
            self._oldest_tombstone_ms, start, len(index), crc32(index), 0,
        )  # fmt: skip
        trailer = trailer[:-4]
        self._write(trailer + crc32(trailer).to_bytes(4, "big"))
        self._pass("compaction.before_file")
        self._file.sync()
        self._file.close()
        self._disk.rename(self._aside, self.path)
        self._disk.sync_directory(self._directory)
        self._file = None
        self._pass("compaction.after_file")
        return self._at

    def abandon(self) -> None:
        """Leave no file behind that is not finished."""
        if self._file is not None:
            self._file.close()
            self._disk.remove(self._aside)
            self._file = None

    def _keep(self, rows: Rows, records: memoryview) -> None:
        if len(rows):
            self._rows.append(rows)
            self._records.append(bytes(records))
            self._waiting_rows += len(rows)
            self._waiting_bytes += len(records)

    def _end_block(self) -> None:
        if not self._waiting_rows:
            return
        rows = np.empty(self._waiting_rows, dtype=ROW)
        np.concatenate(self._rows, out=rows)
        columns = rows.tobytes()
        firsts = (int(rows["queue_offset"][0]), int(rows["log_offset"][0]))
        counts = (self._waiting_bytes, self._waiting_rows, crc32(columns))
        self._index.append((self._at, *firsts, *counts))
        self._write(columns, *self._records)
        self._rows, self._records = [], []
        self._waiting_rows = self._waiting_bytes = 0

    def _write(self, *data: bytes) -> None:
        assert self._file is not None
        self._file.write(self._at, data)
        self._at += sum(map(len, data))

    def _pass(self, name: str) -> None:
        try:
            self._failpoints.hit(name)
        except OSError as error:
            raise write_refusal(error, f"cannot write {self.path}") from error
