"""Put runs of records together to a frame. Knows bytes, not where they are written."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import stamp
from apps.engine.codec.checksum import crc32
from apps.engine.codec.frame import FrameHeader, encode_frame_header
from apps.engine.codec.layout import FILLER_MAGIC
from apps.engine.log.marks import MARK_RECORDS, Marks

_FILLER = struct.Struct(">ii")


# Not frozen: one is made for every write, and freezing a class triples what making one costs.
@dataclass(slots=True, kw_only=True, eq=False)
class RecordRun:
    """Consecutive records of one queue, not yet stamped.

    `payload` is the records end to end and is written to; `sizes` is int32[n], `starts` int64[n].
    """

    payload: bytearray
    sizes: NDArray[np.int32]
    starts: NDArray[np.int64]
    queue_offset: int


def sizes_of(runs: Sequence[RecordRun]) -> NDArray[np.int32]:
    """Return the sizes of the records of all runs."""
    return runs[0].sizes if len(runs) == 1 else np.concatenate([run.sizes for run in runs])


def assemble(
    runs: Sequence[RecordRun], header: FrameHeader, *, store_host: bytes, marks: Marks
) -> tuple[list[bytes | bytearray], list[int]]:
    """Stamp the records of all runs for their place and put the header before them.

    Return the buffers of the frame, in order, and the log offset of each run's first record.
    The header is whole but for its checksum, which is set. `store_host` is 8 bytes. A frame of many
    records leaves `marks`.
    """
    at = header.end - header.payload_bytes
    buffers: list[bytes | bytearray] = [b""]
    run_log_offsets = []
    crc = 0
    for run in runs:
        stamp(
            run.payload,
            run.starts,
            queue_offset=run.queue_offset,
            log_offset=at,
            store_time_ms=header.store_time_ms,
            store_host=store_host,
        )
        if len(run.starts) >= 2 * MARK_RECORDS:
            crc = _marked(run, at, crc, marks)
        else:
            crc = crc32(run.payload, crc)
        buffers.append(run.payload)
        run_log_offsets.append(at)
        at += len(run.payload)
    header.payload_crc = crc
    buffers[0] = encode_frame_header(header)
    return buffers, run_log_offsets


def _marked(run: RecordRun, log_offset: int, crc: int, marks: Marks) -> int:
    """Return the sum of what came before and of a run, whose first record is at `log_offset`."""
    borders = [*run.starts[::MARK_RECORDS].tolist(), len(run.payload)]
    view = memoryview(run.payload)
    sums = [crc]
    for start, stop in pairwise(borders):
        crc = crc32(view[start:stop], crc)
        sums.append(crc)
    marks.add([log_offset + border for border in borders], sums)
    return crc


def filler(left_bytes: int) -> bytes:
    """Return what closes a segment of which `left_bytes` are not used."""
    return _FILLER.pack(left_bytes, FILLER_MAGIC)
