"""Read messages of one queue: which entries, then which bytes. Knows no groups."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import starts_of
from apps.engine.codec.tags import filter_hashes
from apps.engine.codec.windows import window
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.errors import InvalidArgument, StoreDamaged
from apps.engine.files.backend import NotCached
from apps.engine.limits import FETCH_BYTES_MAX, FETCH_MESSAGES_MAX, WAIT_MS_MAX
from apps.engine.log.commitlog import CommitLog
from apps.engine.types import MessageBlock, PullRequest, PullResult, PullStatus

# How far one filtered read looks for matches before it answers with where to go on.
_FILTER_SCAN_ENTRIES = 16_384
_NOTHING = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Entries chosen from a stretch of a queue: their offsets, and where the stretch ends."""

    offsets: NDArray[np.int64]
    log_offsets: NDArray[np.int64]
    sizes: NDArray[np.int32]
    next_offset: int


def check_amounts(messages_max: int, bytes_max: int, wait_ms: int) -> None:
    """Raise InvalidArgument for a read of too much or too long."""
    if not 1 <= messages_max <= FETCH_MESSAGES_MAX:
        raise InvalidArgument(f"max must be 1 to {FETCH_MESSAGES_MAX}, not {messages_max}")
    if not 1 <= bytes_max <= FETCH_BYTES_MAX:
        raise InvalidArgument(f"max_bytes must be 1 to {FETCH_BYTES_MAX}, not {bytes_max}")
    if not 0 <= wait_ms <= WAIT_MS_MAX:
        raise InvalidArgument(f"wait_ms must be 0 to {WAIT_MS_MAX}, not {wait_ms}")


def select(
    queue: ConsumeQueue,
    start: int,
    *,
    messages_max: int,
    bytes_max: int,
    hashes: list[int] | None,
    wait: bool,
) -> Selection:
    """Choose from `start` up to what readers may see; at least one entry however large it is.

    With `hashes` only entries of those tags are chosen, out of at most 16,384 looked at.
    """
    looked = messages_max if hashes is None else max(messages_max, _FILTER_SCAN_ENTRIES)
    count = min(looked, queue.visible - start)
    entries = queue.read(start, count, wait=wait)
    offsets = np.arange(start, start + len(entries))
    next_offset = start + len(entries)
    if hashes is not None:
        matching = np.flatnonzero(np.isin(entries["tag_hash"], hashes))
        if len(matching) > messages_max:
            next_offset = start + int(matching[messages_max - 1]) + 1
            matching = matching[:messages_max]
        entries, offsets = entries[matching], offsets[matching]
    sizes = entries["size_bytes"].astype(np.int32)
    fitting = int(np.searchsorted(np.cumsum(sizes, dtype=np.int64), bytes_max, side="right"))
    if fitting < len(sizes):
        kept = max(fitting, 1)
        if kept < len(sizes):
            next_offset = int(offsets[kept])
        entries, offsets, sizes = entries[:kept], offsets[:kept], sizes[:kept]
    return Selection(
        offsets=offsets,
        log_offsets=entries["log_offset"].astype(np.int64),
        sizes=sizes,
        next_offset=next_offset,
    )


def pick(
    queue: ConsumeQueue, offsets: NDArray[np.int64], *, bytes_max: int, wait: bool
) -> Selection:
    """Choose the given offsets, ascending and close together, up to `bytes_max`; at least one."""
    first = int(offsets[0])
    entries = queue.read(first, int(offsets[-1]) - first + 1, wait=wait)[offsets - first]
    sizes = entries["size_bytes"].astype(np.int32)
    fitting = int(np.searchsorted(np.cumsum(sizes, dtype=np.int64), bytes_max, side="right"))
    kept = max(fitting, 1)
    return Selection(
        offsets=offsets[:kept],
        log_offsets=entries["log_offset"][:kept].astype(np.int64),
        sizes=sizes[:kept],
        next_offset=int(offsets[min(kept, len(offsets)) - 1]) + 1,
    )


def load(log: CommitLog, queue: ConsumeQueue, chosen: Selection, *, wait: bool) -> MessageBlock:
    """Read the chosen records, and prove that they are the ones the entries mean.

    Raises ColdRead when `wait` is false and the disk would have to be waited for, StoreDamaged
    when a record is not the one expected.
    """
    log_offsets, sizes = chosen.log_offsets, chosen.sizes
    if not len(sizes):
        return MessageBlock(topic=queue.topic, queue=queue.queue, payload=b"", sizes=_NOTHING)
    try:
        payload = log.read_records(log_offsets, sizes, wait=wait)
    except NotCached as error:
        raise ColdRead(lambda: log.read_records(log_offsets, sizes, wait=True)) from error
    starts = starts_of(sizes)
    ints, longs = window(payload, ">i4"), window(payload, ">i8")
    is_right = (
        (ints[starts] == sizes)
        & (ints[starts + 12] == queue.queue)
        & (longs[starts + 20] == chosen.offsets)
        & (longs[starts + 28] == log_offsets)
    )
    if not is_right.all():
        wrong = int(chosen.offsets[int(np.argmin(is_right))])
        raise StoreDamaged(f"queue {queue.topic}/{queue.queue} offset {wrong} is not in the log")
    return MessageBlock(topic=queue.topic, queue=queue.queue, payload=payload, sizes=sizes)


def fetch(log: CommitLog, queue: ConsumeQueue, request: PullRequest, *, wait: bool) -> PullResult:
    """Answer a pull from what is there now, without waiting for messages."""
    start = request.queue_offset
    chosen: Selection | None = None
    if not queue.min_offset <= start <= queue.visible:
        status, next_offset = PullStatus.OFFSET_ILLEGAL, queue.min_offset
        if start > queue.visible:
            next_offset = queue.visible
    elif start == queue.visible:
        status, next_offset = PullStatus.NO_NEW_MSG, start
    else:
        chosen = select(
            queue,
            start,
            messages_max=request.messages_max,
            bytes_max=request.bytes_max,
            hashes=filter_hashes(request.filter),
            wait=wait,
        )
        next_offset = chosen.next_offset
        status = PullStatus.FOUND if len(chosen.sizes) else PullStatus.NO_MATCHED_MSG
    if chosen is None:
        block = MessageBlock(topic=queue.topic, queue=queue.queue, payload=b"", sizes=_NOTHING)
    else:
        block = load(log, queue, chosen, wait=wait)
    return PullResult(
        status=status,
        block=block,
        next_offset=next_offset,
        min_offset=queue.min_offset,
        max_offset=queue.visible,
    )
