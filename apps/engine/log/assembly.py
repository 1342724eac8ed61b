"""Put runs of records together to a frame. Knows bytes, not where they are written."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import stamp
from apps.engine.codec.checksum import crc32
from apps.engine.codec.frame import FrameHeader, encode_frame_header, frame_header_bytes
from apps.engine.codec.layout import FILLER_MAGIC

_FILLER = struct.Struct(">ii")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordRun:
    """Consecutive records of one queue, not yet stamped.

    `payload` is the records end to end and is written to; `sizes` is int32[n], `starts` int64[n].
    """

    payload: bytearray
    sizes: NDArray[np.int32]
    starts: NDArray[np.int64]
    queue_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where and when a frame is written, and by whom. `store_host` is 8 bytes."""

    epoch: int
    log_offset: int
    synced_log_offset: int
    store_time_ms: int
    store_id: bytes
    store_host: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AssembledFrame:
    """The buffers of a frame, in order, and the log offset of each run's first record."""

    buffers: list[bytes | bytearray]
    run_log_offsets: tuple[int, ...]


def assemble(runs: Sequence[RecordRun], place: Place) -> AssembledFrame:
    """Stamp the records of all runs for their place and put the header before them."""
    sizes = runs[0].sizes if len(runs) == 1 else np.concatenate([run.sizes for run in runs])
    header_bytes = frame_header_bytes(len(sizes))
    at = place.log_offset + header_bytes
    buffers: list[bytes | bytearray] = [b""]
    run_log_offsets = []
    crc = 0
    for run in runs:
        stamp(
            run.payload,
            run.starts,
            queue_offset=run.queue_offset,
            log_offset=at,
            store_time_ms=place.store_time_ms,
            store_host=place.store_host,
        )
        crc = crc32(run.payload, crc)
        buffers.append(run.payload)
        run_log_offsets.append(at)
        at += len(run.payload)
    header = FrameHeader(
        epoch=place.epoch,
        log_offset=place.log_offset,
        synced_log_offset=place.synced_log_offset,
        store_time_ms=place.store_time_ms,
        store_id=place.store_id,
        sizes=sizes,
        payload_bytes=at - place.log_offset - header_bytes,
        payload_crc=crc,
    )
    buffers[0] = encode_frame_header(header)
    return AssembledFrame(buffers=buffers, run_log_offsets=tuple(run_log_offsets))


def filler(left_bytes: int) -> bytes:
    """Return what closes a segment of which `left_bytes` are not used."""
    return _FILLER.pack(left_bytes, FILLER_MAGIC)
