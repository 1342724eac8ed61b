"""When messages were stored, and the first one stored at or after a time. Knows queues and the log.

Store times never fall along the log, so a queue can be searched by halves. A consume queue has no
times: each look is one entry and eight bytes of the log, and what was found is remembered, so that
a search broken off by a cold read does not read anything twice.
"""

from collections import OrderedDict
from collections.abc import Set

import numpy as np

from apps.engine.codec.layout import RECORD_HEADER
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.derived.sparse import kept_time_ms
from apps.engine.files.backend import NotCached
from apps.engine.log.commitlog import CommitLog

_TIME_BYTES = RECORD_HEADER["store_time_ms"].itemsize
_TIME_START = RECORD_HEADER.fields["store_time_ms"][1]  # type: ignore[index]  # It has fields.
# A search takes up to 40 looks; this is the memory of a thousand searches, or one oldest message
# for each of ten groups in 4,000 queues.
_REMEMBERED = 40_000
# Of a gap at the end of a queue: whatever comes behind it is stored later than anything.
_NEVER_MS = 1 << 62


class StoreTimes:
    """Store times of messages by queue and queue offset, the latest asked for in memory."""

    def __init__(self, log: CommitLog) -> None:
        """Bind to a log; remember nothing."""
        self._log = log
        self._times: OrderedDict[tuple[str, int, int], int] = OrderedDict()

    def of(self, queue: ConsumeQueue, queue_offset: int, *, wait: bool) -> int:
        """Return when a message was stored, wall time; the queue must have it.

        Raises ColdRead when `wait` is false and the disk would have to be waited for.
        """
        if queue.lost_between(queue_offset, queue_offset + 1):
            queue_offset = _readable_near(queue, queue_offset)
        key = (queue.topic, queue.queue, queue_offset)
        time_ms = self._times.get(key)
        if time_ms is None:
            time_ms = self._read(queue, queue_offset, wait=wait)
            if time_ms == _NEVER_MS:
                return time_ms
            self._times[key] = time_ms
            if len(self._times) > _REMEMBERED:
                self._times.popitem(last=False)
        else:
            self._times.move_to_end(key)
        return time_ms

    def forget(self, queue: ConsumeQueue) -> None:
        """Forget the times of a queue that has got new gaps."""
        place = (queue.topic, queue.queue)
        for key in [key for key in self._times if key[:2] == place]:
            del self._times[key]

    def forget_topics(self, topics: Set[str]) -> None:
        """Forget the times of topics whose queues begin at 0 again."""
        for key in [key for key in self._times if key[0] in topics]:
            del self._times[key]

    def first_since(self, queue: ConsumeQueue, time_ms: int, *, wait: bool) -> int:
        """Return the queue offset of the first message stored at or after a wall time.

        The end of what readers may see when there is none. Raises ColdRead as `of` does: call
        again when it is warm.
        """
        low, high = queue.min_offset, max(queue.min_offset, queue.visible)
        while low < high:
            middle = (low + high) // 2
            if self.of(queue, middle, wait=wait) < time_ms:
                low = middle + 1
            else:
                high = middle
        return low

    def _read(self, queue: ConsumeQueue, queue_offset: int, *, wait: bool) -> int:
        if queue_offset < queue.covered:
            # In a gap it is the time of what is read there: the next message.
            kept_ms = kept_time_ms(queue, queue_offset, wait=wait)
            if kept_ms is not None:
                return kept_ms
            if queue.covered >= queue.visible:
                return _NEVER_MS
            queue_offset = queue.covered
        entry = queue.read(queue_offset, 1, wait=wait)
        starts = entry["log_offset"].astype(np.int64) + _TIME_START
        sizes = np.array([_TIME_BYTES], dtype=np.int32)
        try:
            found = self._log.read_records(starts, sizes, wait=wait)
        except NotCached as error:
            raise ColdRead(lambda: self._log.warm(starts, sizes)) from error
        return int.from_bytes(found, "big")


def _readable_near(queue: ConsumeQueue, queue_offset: int) -> int:
    """Return the first message behind one that cannot be read, else the last before it."""
    lost = set(queue.lost.tolist())
    behind = queue_offset
    while behind < queue.visible and behind in lost:
        behind += 1
    if behind < queue.visible:
        return behind
    while queue_offset > queue.min_offset and queue_offset in lost:
        queue_offset -= 1
    return queue_offset
