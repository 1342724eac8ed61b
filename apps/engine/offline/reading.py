"""Messages of a slice as blocks of records, each proven by the checksum of its frame.

Knows slices and frames; not how frames are found, nor what is done with records. Every message of
a slice either comes or is told to be lost, by its number: nothing is passed over in silence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import starts_of
from apps.engine.codec.columns import fixed_fields, is_of, native
from apps.engine.log.tail import Frame
from apps.engine.offline.frames import frames_of
from apps.engine.offline.kept import read_kept
from apps.engine.offline.losses import fates
from apps.engine.offline.opened import OpenedStore
from apps.engine.offline.slices import OnLoss, QueueSlice, RecordBlock

_BYTES = 8 << 20
_GONE = "retention took them meanwhile"


def read(
    store: OpenedStore,
    wanted: QueueSlice,
    *,
    on_loss: OnLoss,
    on_damage: OnLoss | None = None,
    rows_max: int = 10_000,
) -> Iterator[RecordBlock]:
    """Iterate over the records of a slice, in blocks of about `rows_max` and of 8 MiB.

    A block may be larger by a frame. What compaction has replaced is passed over. What is lost is
    told between the blocks, in order; what is damaged and not gone to `on_damage`, where there is
    one. Raises StoreDamaged where the log cannot be followed at all.
    """

    def tell(first: int, last: int) -> None:
        if on_damage is None:
            on_loss(first, last, _reason(store, wanted, first, last))
            return
        for begin, end, is_gone in fates(store, wanted, first, last):
            heard = on_loss if is_gone else on_damage
            heard(begin, end, _GONE if is_gone else _reason(store, wanted, begin, end))

    if wanted.start < wanted.kept_stop:
        heard = on_loss if on_damage is None else on_damage
        yield from read_kept(store, wanted, on_loss=on_loss, on_damage=heard, rows_max=rows_max)
        if wanted.stop <= wanted.kept_stop:
            return
        wanted = replace(wanted, start=wanted.kept_stop)
    expected = wanted.start
    for frames in _gathered(frames_of(store, wanted), rows_max):
        block = _block(frames, wanted, expected)
        if not len(block):
            continue
        for first, last in holes(block.offsets, expected):
            tell(first, last)
        expected = int(block.offsets[-1]) + 1
        yield block
    if expected < wanted.stop:
        tell(expected, wanted.stop - 1)


def holes(offsets: NDArray[np.int64], expected: int) -> Iterator[tuple[int, int]]:
    """Iterate over the runs that ascending queue offsets leave out, from `expected` on."""
    borders = np.concatenate(([expected - 1], offsets))
    for at in np.flatnonzero(np.diff(borders) != 1).tolist():
        yield int(borders[at]) + 1, int(borders[at + 1]) - 1


def _reason(store: OpenedStore, wanted: QueueSlice, first: int, last: int) -> str:
    lost = store.quarantine.lost(wanted.topic, wanted.queue)
    known = int(np.searchsorted(lost, last + 1)) - int(np.searchsorted(lost, first))
    if known:
        return f"{known} of them were damaged on the disk and are in quarantine"
    return "their records are not in the log, or not what was written"


def _gathered(frames: Iterator[Frame], rows_max: int) -> Iterator[list[Frame]]:
    """Join frames to lists that are worth array operations."""
    found: list[Frame] = []
    rows = size_bytes = 0
    for frame in frames:
        found.append(frame)
        rows += len(frame.header.sizes)
        size_bytes += len(frame.payload)
        if rows >= rows_max or size_bytes >= _BYTES:
            yield found
            found, rows, size_bytes = [], 0, 0
    if found:
        yield found


def _block(frames: Sequence[Frame], wanted: QueueSlice, expected: int) -> RecordBlock:
    """Return those records of frames that belong to a slice, from `expected` on."""
    payload = b"".join([frame.payload for frame in frames])
    sizes = np.concatenate([frame.header.sizes for frame in frames])
    starts = starts_of(sizes)
    fixed = fixed_fields(payload, starts)
    offsets = native(fixed["queue_offset"])
    kept = (offsets >= expected) & (offsets < wanted.stop)
    kept &= is_of(payload, fixed, starts, topic=wanted.topic, queue=wanted.queue)
    row = 0
    for frame in frames:
        kept[[row + bad for bad in frame.bad_rows]] = False
        row += len(frame.header.sizes)
    found = RecordBlock(
        topic=wanted.topic,
        queue=wanted.queue,
        payload=payload,
        starts=starts,
        sizes=sizes,
        fixed=fixed,
        offsets=offsets,
    )
    return found if kept.all() else found.of(kept)
