"""Read parcels and messages back: rows from the log, records from the log and from runs.

Knows the log, runs and rows; not who waits, nor when.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec import layout
from apps.engine.codec.batch import starts_of
from apps.engine.codec.bodies import has_bodies
from apps.engine.codec.windows import window
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.derived.timer import parcel
from apps.engine.derived.timer.rows import FROM_LOG, Places, Rows
from apps.engine.derived.timer.runfile import Run, RunDamaged, crcs_of
from apps.engine.errors import StoreDamaged
from apps.engine.files.backend import NotCached
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.quarantine import unreadable

_STEP = 1024


def parcels(
    log: CommitLog, queue: ConsumeQueue, start: int, places: Places
) -> Iterator[tuple[int, Rows]]:
    """Iterate over epoch and rows of each parcel from number `start` on, waiting for the disk.

    Only heads and columns are read, not the messages. This is a loop over parcels: 10 us each.
    Raises StoreDamaged.
    """
    while start < queue.end:
        numbers = np.arange(start, min(start + _STEP, queue.end))
        is_kept = ~np.isin(numbers, queue.lost, assume_unique=True)
        entries = queue.read(start, len(numbers))[is_kept]
        numbers, start = numbers[is_kept], start + len(numbers)
        if not len(numbers):
            continue
        offsets = entries["log_offset"].astype(np.int64)
        fronts_bytes = np.minimum(entries["size_bytes"].astype(np.int32), parcel.FRONT_BYTES)
        fronts = log.read_records(offsets, fronts_bytes.astype(np.int32), wait=True)
        at = starts_of(fronts_bytes)
        spans = zip(at.tolist(), (at + fronts_bytes).tolist(), strict=True)
        heads = [parcel.decode_head(fronts[first:stop]) for first, stop in spans]
        columns_at = offsets + np.array([head.columns_start for head in heads])
        columns_bytes = np.array([head.columns_bytes for head in heads], dtype=np.int32)
        columns = log.read_records(columns_at, columns_bytes, wait=True)
        columns_start = 0
        for row, head in enumerate(heads):
            columns_stop = columns_start + head.columns_bytes
            yield (
                head.epoch,
                parcel.rows_of(
                    head,
                    columns[columns_start:columns_stop],
                    number=int(numbers[row]),
                    log_offset=int(offsets[row]),
                    place=places.number(head.topic, head.queue),
                ),
            )
            columns_start = columns_stop


def records_of(rows: Rows, log: CommitLog, runs: Mapping[int, Run], *, wait: bool) -> bytes:
    """Return the records of the rows end to end, in the order of the rows.

    Each is cut out of what was read in the order of the disk: a loop of 0.3 us a message. Raises
    ColdRead when `wait` is false and the disk would have to be waited for, StoreDamaged when a
    record is not the one expected.
    """
    pieces: list[memoryview] = [memoryview(b"")] * len(rows)
    for source in np.unique(rows["source"]).tolist():
        chosen = np.flatnonzero(rows["source"] == source)
        chosen = chosen[np.argsort(rows["position"][chosen], kind="stable")]
        positions, sizes = rows["position"][chosen], rows["size_bytes"][chosen]
        if source == FROM_LOG:
            payload = _from_log(log, positions, sizes, wait=wait)
        else:
            payload = runs[source].records(positions, sizes, wait=wait)
        starts = starts_of(sizes)
        ints = window(payload, ">i4")
        is_right = (ints[starts] == sizes) & (ints[starts + 4] == layout.RECORD_MAGIC)
        if source != FROM_LOG:
            is_right &= crcs_of(payload, sizes) == rows["crc"][chosen]
        elif is_right.all():
            is_right = has_bodies(payload, starts, sizes)
        if not is_right.all():
            damaged = []
            if source == FROM_LOG:
                damaged = log.examine(int(positions[int(np.argmin(is_right))]))
            if damaged:
                raise unreadable(damaged)
            number = int(rows["number"][chosen[int(np.argmin(is_right))]])
            error = StoreDamaged if source == FROM_LOG else RunDamaged
            raise error(f"delayed message {number} is not where it was written")
        spans = zip(chosen.tolist(), starts.tolist(), (starts + sizes).tolist(), strict=True)
        for row, start, stop in spans:
            pieces[row] = payload[start:stop]
    return b"".join(pieces)


def fronts_of(
    rows: Rows, log: CommitLog, runs: Mapping[int, Run], *, wait: bool
) -> list[tuple[bytes, bytes]]:
    """Return header and properties of each record, without its body. Raises as `records_of`."""
    found = []
    for row in rows:  # A page of a list: a hundred or so.
        source, start, size = int(row["source"]), int(row["position"]), int(row["size_bytes"])

        def read(at: int, size_bytes: int, source: int = source) -> memoryview:
            positions, sizes = np.array([at]), np.array([size_bytes], dtype=np.int32)
            if source == FROM_LOG:
                return _from_log(log, positions, sizes, wait=wait)
            return runs[source].records(positions, sizes, wait=wait)

        header = bytes(read(start, layout.RECORD_HEADER_BYTES))
        total, magic = window(header, ">i4")[[0, 4]].tolist()
        behind = layout.RECORD_HEADER_BYTES + int(window(header, ">i4")[84])
        if (total, magic) != (size, layout.RECORD_MAGIC) or not 88 <= behind < size - 2:
            raise StoreDamaged(f"delayed message {int(row['number'])} is not where it was written")
        tail = read(start + behind, size - behind)
        found.append((header, bytes(tail[1 + tail[0] + 2 :])))
    return found


def _from_log(
    log: CommitLog, positions: NDArray[np.int64], sizes: NDArray[np.int32], *, wait: bool
) -> memoryview:
    try:
        return log.read_records(positions, sizes, wait=wait)
    except NotCached as error:
        raise ColdRead(lambda: log.warm(positions, sizes)) from error
