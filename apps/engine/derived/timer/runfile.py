"""A run: waiting messages on the disk, sorted by due time, with their bytes. Knows one file.

docs/FORMAT.md has the tables. A run is written once, from front to back, and never changed; it
counts when the manifest names it. A block is the columns of up to 1,024 messages, and the records.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import starts_of
from apps.engine.codec.checksum import crc32
from apps.engine.derived.consumequeue import ColdRead
from apps.engine.derived.timer.rows import ROW, Places, Rows
from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk, File, NotCached
from apps.engine.files.refusals import write_refusal
from apps.engine.log.gather import gather

_MAGIC = b"MQTR"
_VERSION = 1
_HEADER = struct.Struct(">4sHH16s")
_PLACE = struct.Struct(">iB")
_COUNTS = struct.Struct(">II")
BLOCK_ROWS_MAX = 1024

# What a block keeps of a row; the record's place follows from the sizes.
_COLUMNS = np.dtype(
    [
        ("due_ms", ">i8"),
        ("number", ">i8"),
        ("tag_hash", ">i8"),
        ("size_bytes", ">i4"),
        ("place", ">u4"),
        ("crc", ">u4"),
    ]
)
# What the index at the end keeps of a block. Numbers and due times are the first and last ones.
_BLOCK = np.dtype(
    [
        ("start", ">i8"),
        ("records_bytes", ">i8"),
        ("first_due_ms", ">i8"),
        ("last_due_ms", ">i8"),
        ("last_number", ">i8"),
        ("count", ">u4"),
        ("crc", ">u4"),
    ]
)

assert _COLUMNS.itemsize == 36
assert _BLOCK.itemsize == 48
assert _HEADER.size == 24


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """Where a finished run is, as the manifest names it. `index_crc` is that of its index."""

    number: int
    index_start: int
    index_bytes: int
    index_crc: int

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return run_path(self.number)


def run_path(number: int) -> str:
    """Return the path of a run by its number."""
    return f"timer/{number:010d}.run"


def write_run(
    disk: Disk,
    number: int,
    blocks: Iterable[tuple[Rows, bytes]],
    *,
    store_id: bytes,
    places: Places,
    failpoints: Failpoints,
) -> RunPlace | None:
    """Write a run and return it, on the disk with its name; None where there is not one block.

    Each block is up to 1,024 rows in order of due time and number, and their records end to end.
    For a thread. Raises StoreFull, WriteFailed or SyncFailed, and leaves no file then.
    """
    disk.make_directory("timer")
    path = run_path(number)
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        index: list[tuple[int, int, int, int, int, int, int]] = []
        local: dict[int, int] = {}
        file.write(0, [_HEADER.pack(_MAGIC, _VERSION, 0, store_id)])
        at = _HEADER.size
        for rows, payload in blocks:
            columns = _columns(rows, payload, local)
            file.write(at, [columns, payload])
            due, numbers = rows["due_ms"], rows["number"]
            bounds = (int(due[0]), int(due[-1]), int(numbers.max()))
            index.append((at, len(payload), *bounds, len(rows), crc32(columns)))
            at += len(columns) + len(payload)
        tail = _index_bytes(index, [places.place(place) for place in local])
        file.write(at, [tail])
        _pass(failpoints, "timer.before_run", path)
        file.sync()
        disk.sync_directory("timer")
        _pass(failpoints, "timer.after_run", path)
    except BaseException:
        file.close()
        disk.remove(path)
        raise
    file.close()
    if not index:
        disk.remove(path)
        return None
    return RunPlace(number=number, index_start=at, index_bytes=len(tail), index_crc=crc32(tail))


def _columns(rows: Rows, payload: bytes, local: dict[int, int]) -> bytes:
    columns = np.empty(len(rows), dtype=_COLUMNS)
    for name in ("due_ms", "number", "tag_hash", "size_bytes"):
        columns[name] = rows[name]
    for place in np.unique(rows["place"]).tolist():
        columns["place"][rows["place"] == place] = local.setdefault(place, len(local))
    columns["crc"] = crcs_of(payload, rows["size_bytes"])
    return columns.tobytes()


def _index_bytes(
    index: list[tuple[int, int, int, int, int, int, int]], places: list[tuple[str, int]]
) -> bytes:
    parts = [_COUNTS.pack(len(index), len(places)), np.array(index, dtype=_BLOCK).tobytes()]
    for topic, queue in places:
        name = topic.encode()
        parts += [_PLACE.pack(queue, len(name)), name]
    return b"".join(parts)


def crcs_of(payload: bytes | memoryview, sizes: NDArray[np.int32]) -> NDArray[np.uint32]:
    """Return the CRC-32 of each record: a loop, since CRC-32 has no array form; 0.2 us a KiB."""
    starts = starts_of(sizes)
    view = memoryview(payload)
    spans = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
    return np.array([crc32(view[start:stop]) for start, stop in spans], dtype=np.uint32)


def _pass(failpoints: Failpoints, name: str, path: str) -> None:
    try:
        failpoints.hit(name)
    except OSError as error:
        raise write_refusal(error, f"cannot write {path}") from error


class RunDamaged(StoreDamaged):
    """A run is not what was written; what it holds is in the log too, as long as that has it."""


class _Bytes:
    """A file as a source of ranges, the way the log is one."""

    def __init__(self, file: File, path: str) -> None:
        self._file = file
        self._path = path

    def read_into(self, offset: int, target: memoryview, *, wait: bool = True) -> None:
        if self._file.read_into(offset, target, wait=wait) < len(target):
            raise RunDamaged(f"{self._path} ends before its length")


class Run:
    """A finished run. Its first blocks may be in memory already: `cursor` is the first that is not.

    `dead` int64[blocks] counts rows of each block, from the cursor on, that wait no more.
    """

    def __init__(self, disk: Disk, place: RunPlace, *, store_id: bytes, places: Places) -> None:
        """Open the file and read its index. Raises RunDamaged when it is not what was written."""
        self.place = place
        self.number = place.number
        self._disk = disk
        try:
            self._file = disk.open(place.path)
        except FileNotFoundError as error:
            raise RunDamaged(f"{place.path} is missing") from error
        self._bytes = _Bytes(self._file, place.path)
        header = self._read(0, _HEADER.size)
        tail = self._read(place.index_start, place.index_bytes)
        is_ours = header == _HEADER.pack(_MAGIC, _VERSION, 0, store_id)
        if not is_ours or crc32(tail) != place.index_crc:
            raise RunDamaged(f"{place.path} is not the run that was written")
        count, place_count = _COUNTS.unpack_from(tail)
        at = _COUNTS.size + count * _BLOCK.itemsize
        blocks = np.frombuffer(tail, dtype=_BLOCK, count=count, offset=_COUNTS.size)
        self.first_due_ms = blocks["first_due_ms"].astype(np.int64)
        self.last_due_ms = blocks["last_due_ms"].astype(np.int64)
        self.last_number = blocks["last_number"].astype(np.int64)
        self.counts = blocks["count"].astype(np.int64)
        self._starts = blocks["start"].astype(np.int64)
        self._crcs = blocks["crc"].astype(np.int64)
        known = []
        for _ in range(place_count):
            queue, name_bytes = _PLACE.unpack_from(tail, at)
            at += _PLACE.size + name_bytes
            known.append(places.number(tail[at - name_bytes : at].decode(), queue))
        self._places = np.array(known, dtype=np.int32)
        self.cursor = 0
        self.dead = np.zeros(count, dtype=np.int64)

    @property
    def block_count(self) -> int:
        """Return how many blocks there are."""
        return len(self.counts)

    @property
    def next_ms(self) -> int | None:
        """Return when the first message is due that is not in memory; None where all are."""
        if self.cursor == self.block_count:
            return None
        return int(self.first_due_ms[self.cursor])

    @property
    def unread(self) -> int:
        """Return how many messages wait that are not in memory."""
        return int((self.counts - self.dead)[self.cursor :].sum())

    def block(self, number: int, *, wait: bool) -> Rows:
        """Return the rows of a block, as it was written, in order of due time and number.

        Raises ColdRead when `wait` is false and the disk would have to be waited for, and
        StoreDamaged.
        """
        count, start = int(self.counts[number]), int(self._starts[number])
        data = bytearray(count * _COLUMNS.itemsize)
        try:
            self._bytes.read_into(start, memoryview(data), wait=wait)
        except NotCached as error:
            raise ColdRead(lambda: self._warm(start, len(data))) from error
        if crc32(data) != int(self._crcs[number]):
            raise RunDamaged(f"{self.place.path} has a block without its checksum")
        columns = np.frombuffer(data, dtype=_COLUMNS)
        rows = np.zeros(count, dtype=ROW)
        for name in ("due_ms", "number", "tag_hash", "size_bytes", "crc"):
            rows[name] = columns[name]
        rows["at_ms"] = rows["due_ms"]
        rows["place"] = self._places[columns["place"]]
        rows["position"] = start + len(data) + starts_of(rows["size_bytes"])
        rows["source"] = self.number
        return rows

    def records(
        self, positions: NDArray[np.int64], sizes: NDArray[np.int32], *, wait: bool
    ) -> memoryview:
        """Return ranges of the file end to end; neighbours are one read. Raises as `block` does."""
        try:
            return gather(self._bytes, positions, sizes, wait=wait)
        except NotCached as error:
            raise ColdRead(lambda: self._warm_ranges(positions, sizes)) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def remove(self) -> None:
        """Close the file and remove it; for one that the manifest names no more."""
        self.close()
        self._disk.remove(self.place.path)

    def _read(self, start: int, size_bytes: int) -> bytes:
        data = bytearray(size_bytes)
        self._bytes.read_into(start, memoryview(data))
        return bytes(data)

    def _warm(self, start: int, size_bytes: int) -> None:
        starts, sizes = np.array([start]), np.array([size_bytes], dtype=np.int32)
        self._warm_ranges(starts, sizes)

    def _warm_ranges(self, positions: NDArray[np.int64], sizes: NDArray[np.int32]) -> None:
        # A descriptor of its own: the run may be over while a thread waits for the disk.
        try:
            file = self._disk.open(self.place.path)
        except FileNotFoundError:
            return
        try:
            gather(_Bytes(file, self.place.path), positions, sizes, wait=True)
        finally:
            file.close()
