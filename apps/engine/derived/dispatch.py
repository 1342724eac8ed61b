"""Feed the consume queues and the key index from the log, as at a start or a rebuild.

Knows frames and queues. Idempotent: an entry a queue already has is skipped by its queue offset,
so dispatching the same stretch of log twice changes nothing.
"""

from collections.abc import Iterable

from apps.engine.codec.batch import queue_entries, starts_of
from apps.engine.codec.layout import SCHEDULE_TOPIC
from apps.engine.codec.scan import due_times, property_sections, queue_runs, tag_hashes
from apps.engine.derived.index.keyindex import KeyIndex
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import StoreDamaged
from apps.engine.log.tail import Frame


def dispatch(
    frames: Iterable[Frame],
    queues: QueueSet,
    index: KeyIndex | None = None,
    *,
    queues_from: int = 0,
) -> int:
    """Give every record of `frames` its entries and return how many records were read.

    Frames below `queues_from` are for the index only. Raises StoreDamaged when a queue would get a
    hole.
    """
    count = 0
    for frame in frames:
        if frame.log_offset >= queues_from:
            dispatch_frame(frame, queues)
        if index is not None:
            index.dispatch_frame(frame)
        count += len(frame.header.sizes)
    return count


def dispatch_frame(frame: Frame, queues: QueueSet) -> None:
    """Give every record of one frame its entry."""
    sizes = frame.header.sizes
    starts = starts_of(sizes)
    properties = property_sections(frame.payload, starts, sizes)
    hashes = tag_hashes(properties)
    runs = queue_runs(frame.payload, starts)
    for run in runs:
        if run.topic == SCHEDULE_TOPIC:
            hashes[run.rows] = due_times(properties, run.rows)
    entries = queue_entries(starts, sizes, hashes, log_offset=frame.payload_log_offset)
    for run in runs:
        queue = queues.queue(run.topic, run.queue)
        if queue.end == 0 and run.first_queue_offset > 0:
            # The log no longer holds this queue's first messages.
            queue.resume(min_offset=run.first_queue_offset, end=run.first_queue_offset)
        known = queue.end - run.first_queue_offset
        if known < 0:
            raise StoreDamaged(
                f"queue {run.topic}/{run.queue} misses offsets {queue.end} to "
                f"{run.first_queue_offset - 1} before log offset {frame.payload_log_offset}"
            )
        if known < len(run.rows):
            queue.append(entries[run.rows[known:]])
            queues.added(queue, frame_end=frame.header.end)
    queues.dispatched_offset = max(queues.dispatched_offset, frame.header.end)
