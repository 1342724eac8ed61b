"""Which messages a job reads, and which task reads which. Knows offsets and queues; no bytes.

Whatever is to be read and is not there any more is told as lost, never left out in silence.
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence

from apps.engine.offline.slices import QueueExtent
from pyspark_mqweb.backends import Planner
from pyspark_mqweb.errors import BadOption, DataLoss
from pyspark_mqweb.options import EARLIEST, LATEST, Moment, SourceOptions, Start

_log = logging.getLogger(__name__)

Key = tuple[str, int]
Range = tuple[Key, int, int]
# A task that reads less costs more to start than to run.
_TASK_ROWS_MIN = 20_000


class Loss:
    """What to do about messages that cannot be read: raise, or say so and read on."""

    def __init__(
        self, *, is_fatal: bool, way_out: str = "failOnDataLoss=false reads on without them"
    ) -> None:
        """Bind to what `failOnDataLoss` says, and what an error tells of how to read on."""
        self._is_fatal = is_fatal
        self._way_out = way_out

    def tell(self, topic: str, queue: int, first: int, last: int, reason: str) -> None:
        """Raise DataLoss, or log."""
        text = f"{topic}/{queue}: offsets {first} to {last} are lost: {reason}"
        if self._is_fatal:
            raise DataLoss(f"{text} ({self._way_out})")
        _log.warning("%s", text)


def wanted_queues(options: SourceOptions, planner: Planner) -> dict[Key, QueueExtent]:
    """Return the queues a read is about, as they are now.

    Raises BadOption where there is none, and what the planner raises for a topic it does not know.
    """
    if options.assign is not None:
        found = {}
        for topic, queues in options.assign.items():
            known = {one.queue: one for one in planner.extents(topic)}
            for queue in queues:
                if queue not in known:
                    raise BadOption(f"topic {topic} has no queue {queue}")
                found[topic, queue] = known[queue]
        return found
    topics: Sequence[str] = options.subscribe
    if options.pattern is not None:
        topics = planner.matching(options.pattern)
    return {(one.topic, one.queue): one for topic in topics for one in planner.extents(topic)}


def borders(
    border: Start | Moment, queues: Mapping[Key, QueueExtent], planner: Planner, *, unnamed: int
) -> dict[Key, int]:
    """Return the offset of each queue; queues that JSON does not name are at `unnamed`.

    Raises BadOption for offsets of queues nobody asked for, and where a moment is needed that comes
    behind the last message of a queue.
    """
    for topic, queue in border.named():
        if (topic, queue) not in queues:
            raise BadOption(f"{border.name} names {topic}/{queue}, which is not read")
    found = {}
    for (topic, queue), extent in queues.items():
        if isinstance(border, Moment):
            offset = _since(border, extent, planner, unnamed=unnamed)
        else:
            offset = border.of(topic, queue, default=unnamed)
        ends = {EARLIEST: extent.min_offset, LATEST: extent.max_offset}
        found[topic, queue] = ends.get(offset, offset)
    return found


def _since(moment: Moment, extent: QueueExtent, planner: Planner, *, unnamed: int) -> int:
    time_ms = moment.of(extent.topic, extent.queue)
    if time_ms is None:
        return unnamed
    offset = planner.since(extent, time_ms)
    if offset >= extent.max_offset:
        if moment.is_needed:
            raise BadOption(
                f"{moment.name}: {extent.topic}/{extent.queue} has no message stored at {time_ms} "
                f"or later (startingOffsetsByTimestampStrategy=latest begins at its end)"
            )
        return LATEST
    return max(offset, extent.min_offset)


def checked(
    queues: Mapping[Key, QueueExtent],
    begins: Mapping[Key, int],
    ends: Mapping[Key, int],
    loss: Loss,
) -> list[Range]:
    """Return the ranges that are there, told from those that are lost, in order of the queues."""
    found = []
    for key in sorted({**begins, **ends}):
        extent = queues.get(key)
        if extent is None:
            first, last = begins.get(key, 0), ends.get(key, 0) - 1
            if last >= first:
                loss.tell(*key, first, last, "the queue is gone")
            continue
        begin = begins.get(key, extent.min_offset)
        end = ends.get(key, begin)
        if begin > extent.max_offset or end > extent.max_offset:
            first = max(min(begin, end), extent.max_offset)
            reason = f"the queue ends at {extent.max_offset}: was the store replaced or cut?"
            loss.tell(*key, first, max(begin, end) - 1, reason)
            end = min(end, extent.max_offset)
        if end < begin:
            loss.tell(*key, end, begin - 1, "the end of the range is before its start")
            continue
        if begin < extent.min_offset and begin < end:
            last = min(extent.min_offset, end) - 1
            loss.tell(*key, begin, last, f"the queue begins at {extent.min_offset} now")
            begin = min(extent.min_offset, end)
        if begin < end:
            found.append((key, begin, end))
    return found


def task_count(options: SourceOptions, rows: int) -> int:
    """Return how many tasks read so many rows."""
    if not rows:
        return 0
    fewest = options.min_partitions
    if fewest is None:
        fewest = min(-(-rows // _TASK_ROWS_MIN), 2 * (os.cpu_count() or 1))
    return min(rows, max(fewest, -(-rows // options.max_records_per_partition)))


def shares(ranges: Sequence[Range], count: int) -> Iterator[list[Range]]:
    """Split ranges into so many lists of as many rows each, but for one row."""
    rows = sum(end - begin for _, begin, end in ranges)
    borders = [rows * number // count for number in range(1, count + 1)]
    share: list[Range] = []
    done = 0
    for key, begin, end in ranges:
        at = begin
        while at < end:
            stop = min(end, at + borders[0] - done)
            if stop > at:
                share.append((key, at, stop))
            done += stop - at
            at = stop
            if done == borders[0]:
                yield share
                share = []
                borders.pop(0)


def rationed(available: Mapping[Key, int], rows_max: int, *, turn: int = 0) -> dict[Key, int]:
    """Share out `rows_max` rows among queues that have so many: in proportion, never more in sum.

    Each queue gets its share rounded down; what is left goes round one by one, to those that got
    nothing first, beginning with another queue at each `turn`. So a small queue waits for a turn
    and never for ever.
    """
    rows = sum(available.values())
    if rows <= rows_max:
        return dict(available)
    given = {key: count * rows_max // rows for key, count in available.items()}
    left = rows_max - sum(given.values())
    keys = sorted(available)
    keys = keys[turn % len(keys) :] + keys[: turn % len(keys)]
    keys.sort(key=lambda key: given[key] > 0)
    while left:
        for key in keys:
            if left and given[key] < available[key]:
                given[key] += 1
                left -= 1
    return given
