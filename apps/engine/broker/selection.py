"""Choose messages of one queue, by its entries and by what a filter takes, and read them.

Knows entries, records and filters; no groups, no requests.
"""

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec import layout
from apps.engine.codec.batch import count_within, starts_of
from apps.engine.codec.properties import decode_properties
from apps.engine.codec.windows import window
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.derived.sparse import entries_at, gone, kept_records, stretch
from apps.engine.errors import MalformedBatch, StoreDamaged
from apps.engine.files.backend import NotCached
from apps.engine.filters.subscription import Filter
from apps.engine.limits import MIB
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.quarantine import unreadable
from apps.engine.types import MessageBlock

# How far one filtered read looks for matches before it answers with where to go on; meanwhile
# nobody else is served. Entries cost 0.06 us each where what was passed over is recorded, and a
# message a condition is asked about costs 4 to 6 us.
_TAG_SCAN_ENTRIES = 16_384
_TAG_SCANS_MAX = 8
_CONDITION_SCAN_MESSAGES = 1024
_CONDITION_SCAN_BYTES = 4 * MIB
# Where a record keeps the length of its body.
_BODY_BYTES_AT = 84
_NOTHING = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Entries chosen from a stretch of a queue: their offsets, and where the stretch ends."""

    offsets: NDArray[np.int64]
    log_offsets: NDArray[np.int64]
    sizes: NDArray[np.int32]
    next_offset: int


class Looks:
    """How many messages one read may still look at; without end where it takes what it sees."""

    def __init__(self, wanted: Filter) -> None:
        """Start with what a filter of this kind may cost."""
        self._left: int | None = None
        if wanted.reads_properties:
            self._left = _CONDITION_SCAN_MESSAGES
        elif wanted.hashes is not None:
            self._left = _TAG_SCANS_MAX * _TAG_SCAN_ENTRIES

    @property
    def is_over(self) -> bool:
        """Say whether the read must end, with what it has."""
        return self._left is not None and self._left <= 0

    def take(self, count: int) -> None:
        """Count messages that were looked at."""
        if self._left is not None:
            self._left -= count


def choose(
    log: CommitLog,
    queue: ConsumeQueue,
    start: int,
    *,
    wanted: Filter,
    messages_max: int,
    bytes_max: int,
    wait: bool,
) -> Selection:
    """Choose what a filter takes, from `start` up to what readers may see.

    At least one message however large it is, where there is one among those looked at: 16,384
    entries for tags; for a condition on properties 1,024 messages, or as many as fill 4 MiB. Raises
    ColdRead when `wait` is false and the disk would have to be waited for, StoreDamaged when a
    record that must be read for its properties is not the one expected.
    """
    if not wanted.reads_properties:
        return select(
            queue,
            start,
            messages_max=messages_max,
            bytes_max=bytes_max,
            hashes=wanted.hashes,
            wait=wait,
        )
    assert start < queue.visible
    stop = min(start + _CONDITION_SCAN_MESSAGES, queue.visible)
    at, found_count, looked_bytes = start, 0, 0
    # As much as would do if everything matched, then more and more.
    count = messages_max
    parts = []
    while at < stop and found_count < messages_max and looked_bytes < _CONDITION_SCAN_BYTES:
        looked = select(
            queue,
            at,
            messages_max=min(count, stop - at),
            bytes_max=_CONDITION_SCAN_BYTES - looked_bytes,
            hashes=None,
            wait=wait,
        )
        block = load(log, queue, looked, wait=wait)
        try:
            matching = _matching(block, wanted)
        except StoreDamaged as error:
            raise _located(log, looked, error) from error
        parts.append((looked, matching))
        at, count = looked.next_offset, 4 * count
        found_count += len(matching)
        looked_bytes += len(block.payload)
    found = Selection(
        offsets=np.concatenate([part.offsets[rows] for part, rows in parts]),
        log_offsets=np.concatenate([part.log_offsets[rows] for part, rows in parts]),
        sizes=np.concatenate([part.sizes[rows] for part, rows in parts]),
        next_offset=at,
    )
    return _cut(found, messages_max, bytes_max)


def select(
    queue: ConsumeQueue,
    start: int,
    *,
    messages_max: int,
    bytes_max: int,
    hashes: Set[int] | None,
    wait: bool,
) -> Selection:
    """Choose from `start` up to what readers may see; at least one entry however large it is.

    With `hashes` only entries of those tags are chosen, out of at most 16,384 looked at.
    """
    looked = messages_max if hashes is None else max(messages_max, _TAG_SCAN_ENTRIES)
    offsets, entries, next_offset = stretch(
        queue, start, min(looked, queue.visible - start), wait=wait
    )
    if hashes is not None:
        tagged = np.flatnonzero(np.isin(entries["tag_hash"], list(hashes)))
        # One more than is kept tells where to go on.
        tagged = tagged[: messages_max + 1]
        entries, offsets = entries[tagged], offsets[tagged]
    found = Selection(
        offsets=offsets,
        log_offsets=entries["log_offset"].astype(np.int64),
        sizes=entries["size_bytes"].astype(np.int32),
        next_offset=next_offset,
    )
    return _cut(without(found, queue.lost), messages_max, bytes_max)


def _cut(found: Selection, messages_max: int, bytes_max: int) -> Selection:
    """Keep what fits, at least one, and go on at the first that does not."""
    kept = min(count_within(found.sizes, bytes_max), messages_max)
    if kept >= len(found.sizes):
        return found
    return Selection(
        offsets=found.offsets[:kept],
        log_offsets=found.log_offsets[:kept],
        sizes=found.sizes[:kept],
        next_offset=int(found.offsets[kept]),
    )


def without(found: Selection, offsets: NDArray[np.int64]) -> Selection:
    """Leave out messages by queue offset; where to go on stays as it was."""
    if not len(offsets):
        return found
    kept = ~np.isin(found.offsets, offsets, assume_unique=True)
    return Selection(
        offsets=found.offsets[kept],
        log_offsets=found.log_offsets[kept],
        sizes=found.sizes[kept],
        next_offset=found.next_offset,
    )


def pick(
    queue: ConsumeQueue, offsets: NDArray[np.int64], *, bytes_max: int, wait: bool
) -> Selection:
    """Choose the given offsets, ascending and close together, up to `bytes_max`; at least one.

    Messages that cannot be read any more are passed over; where all are, nothing is chosen.
    """
    if offsets[0] < queue.covered:
        offsets = offsets[offsets < queue.covered]
    asked = offsets
    if len(queue.lost) or offsets[0] < queue.covered:
        offsets = offsets[~gone(queue, offsets, wait=wait)]
        if not len(offsets):
            nothing = np.empty(0, dtype=np.int64)
            return Selection(
                offsets=nothing,
                log_offsets=nothing,
                sizes=_NOTHING,
                next_offset=int(asked[-1]) + 1,
            )
    entries = entries_at(queue, offsets, wait=wait)
    sizes = entries["size_bytes"].astype(np.int32)
    kept = count_within(sizes, bytes_max)
    return Selection(
        offsets=offsets[:kept],
        log_offsets=entries["log_offset"][:kept].astype(np.int64),
        sizes=sizes[:kept],
        next_offset=int(offsets[min(kept, len(offsets)) - 1]) + 1,
    )


def load(log: CommitLog, queue: ConsumeQueue, chosen: Selection, *, wait: bool) -> MessageBlock:
    """Read the chosen records, and prove that they are the ones the entries mean.

    Raises ColdRead when `wait` is false and the disk would have to be waited for, Unreadable for
    records that are damaged in the log, StoreDamaged when a record is not the one expected.
    """
    log_offsets, sizes = chosen.log_offsets, chosen.sizes
    if not len(sizes):
        return empty_block(queue)
    is_kept = int(chosen.offsets[0]) < queue.covered
    try:
        if is_kept:
            payload = kept_records(queue, chosen.offsets, wait=wait, take=log.held.take)
        else:
            payload = log.read_records(log_offsets, sizes, wait=wait)
    except NotCached as error:
        raise ColdRead(lambda: log.warm(log_offsets, sizes)) from error
    starts = starts_of(sizes)
    ints, longs = window(payload, ">i4"), window(payload, ">i8")
    is_right = (
        (ints[starts] == sizes)
        & (ints[starts + 12] == queue.queue)
        & (longs[starts + 20] == chosen.offsets)
        & (longs[starts + 28] == log_offsets)
    )
    is_right &= log.marks.has_bodies(payload, log_offsets, sizes)
    if not is_right.all():
        wrong = int(np.argmin(is_right))
        damaged = [] if is_kept else log.examine(int(log_offsets[wrong]))
        if damaged:
            raise unreadable(damaged)
        raise StoreDamaged(
            f"queue {queue.topic}/{queue.queue} offset {int(chosen.offsets[wrong])} "
            "is not in the log"
        )
    return MessageBlock(topic=queue.topic, queue=queue.queue, payload=payload, sizes=sizes)


def _located(log: CommitLog, looked: Selection, error: StoreDamaged) -> StoreDamaged:
    """Return where the log is damaged, if it is; else the error as it was."""
    found = {}
    for log_offset in looked.log_offsets.tolist():  # Damage is rare.
        found.update({one.log_offset: one for one in log.examine(log_offset)})
    return unreadable([found[at] for at in sorted(found)]) if found else error


def empty_block(queue: ConsumeQueue) -> MessageBlock:
    """Return a block of no messages."""
    return MessageBlock(topic=queue.topic, queue=queue.queue, payload=b"", sizes=_NOTHING)


def _matching(block: MessageBlock, wanted: Filter) -> NDArray[np.int64]:
    """Return the numbers of the messages whose properties a filter takes.

    This is a loop over messages: what a condition says of one has no array form. Reading five
    properties takes 2 us, two comparisons as long again.
    """
    try:
        taken = [
            wanted.matches(decode_properties(section)) for section in _property_sections(block)
        ]
    except MalformedBatch as error:
        raise StoreDamaged(
            f"properties of a message of queue {block.topic}/{block.queue} are damaged: {error}"
        ) from error
    return np.flatnonzero(taken)


def _property_sections(block: MessageBlock) -> list[bytes]:
    """Return the bytes of each message's properties.

    Raises StoreDamaged where the lengths in a record do not fit its size: a batch was checked when
    it came, its bytes on the disk were not since.
    """
    starts = starts_of(block.sizes)
    stops = starts + block.sizes
    body_bytes = window(block.payload, ">i4")[starts + _BODY_BYTES_AT].astype(np.int64)
    room = block.sizes - layout.RECORD_FIXED_BYTES - len(block.topic)
    is_right = (body_bytes >= 0) & (body_bytes <= room)
    if is_right.all():
        at = starts + layout.RECORD_FIXED_BYTES + len(block.topic) + body_bytes
        is_right = at + window(block.payload, ">i2")[at - 2] == stops
    if not is_right.all():
        offset = int(window(block.payload, ">i8")[starts[int(np.argmin(is_right))] + 20])
        raise StoreDamaged(f"queue {block.topic}/{block.queue} offset {offset} is damaged")
    with memoryview(block.payload) as view:
        spans = zip(at.tolist(), stops.tolist(), strict=True)
        return [bytes(view[start:stop]) for start, stop in spans]
