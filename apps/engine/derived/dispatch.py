"""Feed the consume queues and the key index from the log, as at a start or a rebuild.

Knows frames and queues. Idempotent: an entry a queue already has is skipped by its queue offset,
so dispatching the same stretch of log twice changes nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from apps.engine.codec.batch import starts_of
from apps.engine.codec.layout import QUEUE_ENTRY
from apps.engine.codec.scan import queue_runs
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.index.keyindex import KeyIndex
from apps.engine.derived.stretch import Stretch
from apps.engine.errors import StoreDamaged
from apps.engine.log.quarantine import Quarantine
from apps.engine.log.tail import Frame
from apps.engine.types import LostMessages


class Taker(Protocol):
    """The queues that entries are for: all of a store, or one that is made again."""

    dispatched_offset: int

    def queue(self, topic: str, number: int) -> ConsumeQueue | None:
        """Return the queue, which may be new; None where no entries of it are wanted."""
        ...

    def find(self, topic: str, number: int) -> ConsumeQueue | None:
        """Return the queue, None where there is none or no entries of it are wanted."""
        ...

    def added(self, queue: ConsumeQueue, *, frame_end: int) -> None:
        """Note that `queue` got entries for records of a frame that ends at `frame_end`."""
        ...


def dispatch(
    stretches: Iterable[Sequence[Frame]],
    queues: Taker,
    index: KeyIndex | None = None,
    *,
    queues_from: int = 0,
    quarantine: Quarantine | None = None,
) -> int:
    """Take the `steps` to the end and return how many records were read."""
    return sum(steps(stretches, queues, index, queues_from=queues_from, quarantine=quarantine))


def steps(
    stretches: Iterable[Sequence[Frame]],
    queues: Taker,
    index: KeyIndex | None = None,
    *,
    queues_from: int = 0,
    quarantine: Quarantine | None = None,
) -> Iterator[int]:
    """Give every record of the log its entries, one stretch a step: return how many it had.

    Frames below `queues_from` are for the index only. What lies in quarantine gets entries of
    queues without a record, so that every queue offset behind it stays the same. Raises
    StoreDamaged when a queue would get another hole.
    """
    at = queues_from
    for frames in stretches:
        stretch = Stretch(frames)
        count = len(stretch.sizes)
        if index is not None:
            index.dispatch(stretch)
        if stretch.frames[0].log_offset < queues_from:
            later = [frame for frame in frames if frame.log_offset >= queues_from]
            if not later:
                yield count
                continue
            stretch = Stretch(later)
        is_damaged = quarantine is not None and bool(quarantine.ranges)
        if not is_damaged and not any(run.has_holes for run in stretch.runs):
            _dispatch_stretch(stretch, queues)
            yield count
            continue
        for frame in stretch.frames:  # Which of them has a hole before it?
            if quarantine is not None and is_damaged:
                _fill(frame.log_offset, at, queues, quarantine)
                _name_holes(frame, queues, quarantine)
                at = frame.log_offset
            _dispatch_stretch(Stretch([frame]), queues)
        yield count
    if quarantine is not None and quarantine.ranges:
        _fill(quarantine.ranges[-1].end, at, queues, quarantine)


def _fill(stop: int, start: int, queues: Taker, quarantine: Quarantine) -> None:
    """Give the messages of gaps from `start` up to `stop` entries that name no record."""
    for gap in quarantine.within(start, stop):
        if not gap.is_gap:
            continue  # Its frame is read like any other.
        for lost in gap.lost:
            _extend(queues, lost, log_offset=gap.log_offset)
        queues.dispatched_offset = max(queues.dispatched_offset, gap.end)


def _extend(queues: Taker, lost: LostMessages, *, log_offset: int) -> None:
    queue = queues.queue(lost.topic, lost.queue)
    if queue is None:
        return
    if queue.end == 0 and lost.first > 0:
        queue.resume(min_offset=lost.first, end=lost.first)
    count = lost.last + 1 - queue.end
    if count <= 0:
        return
    entries = np.zeros(count, dtype=QUEUE_ENTRY)
    entries["log_offset"] = log_offset
    queue.append(entries.tobytes())
    queues.added(queue, frame_end=queues.dispatched_offset)


def _name_holes(frame: Frame, queues: Taker, quarantine: Quarantine) -> None:
    """Find offsets a queue misses before a frame, and say that they were in the gap before it."""
    gaps = [one for one in quarantine.within(0, frame.log_offset) if one.is_gap]
    if not gaps:
        return
    for run in queue_runs(frame.payload, starts_of(frame.header.sizes)):
        queue = queues.find(run.topic, run.queue)
        end = 0 if queue is None else queue.end
        if end and end < run.first_queue_offset:
            lost = LostMessages(
                topic=run.topic, queue=run.queue, first=end, last=run.first_queue_offset - 1
            )
            quarantine.add(replace(gaps[-1], lost=(*gaps[-1].lost, lost)))
            _extend(queues, lost, log_offset=gaps[-1].log_offset)


def _dispatch_stretch(stretch: Stretch, queues: Taker) -> None:
    entries = stretch.entries()
    for run in stretch.runs:
        queue = queues.queue(run.topic, run.queue)
        if queue is None:
            continue
        if queue.end == 0 and run.first_queue_offset > 0:
            # The log no longer holds this queue's first messages.
            queue.resume(min_offset=run.first_queue_offset, end=run.first_queue_offset)
        known = queue.end - run.first_queue_offset
        if known < 0:
            raise StoreDamaged(
                f"queue {run.topic}/{run.queue} misses offsets {queue.end} to "
                f"{run.first_queue_offset - 1} before log offset {stretch.frames[0].log_offset}"
            )
        if known < len(run.rows):
            queue.append(entries[run.rows[known:]].tobytes())
            queues.added(queue, frame_end=stretch.end)
    queues.dispatched_offset = max(queues.dispatched_offset, stretch.end)
