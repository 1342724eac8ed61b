"""Consume queues against the log: entry i is record i, and the counts agree."""

from collections.abc import Iterator
from math import gcd
from typing import Any

import numpy as np

from apps.engine.codec.layout import QUEUE_ENTRY_BYTES
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import CHECKPOINT, QueueRow, QueueSet
from apps.engine.derived.stretch import Stretch
from apps.engine.errors import EngineError
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.verify.findings import Finding, Kind
from apps.engine.verify.store import Store


def queues(store: Store) -> Iterator[Finding]:
    """Compare each entry that a checkpoint promises with the record it stands for."""
    try:
        content = atomic.load(store.disk, CHECKPOINT)
    except EngineError as error:
        yield Finding(kind=Kind.QUEUES, place=CHECKPOINT, detail=str(error))
        return
    if content is None:
        return  # Nothing is promised: the next start makes them anew.
    store.reach(int(content["dispatched_offset"]))
    config = EngineConfig(consume_queue_file_entries=_file_entries(store))
    found = QueueSet(store.disk, config=config, failpoints=Failpoints())
    try:
        yield from _compared(store, found, int(content["dispatched_offset"]), content["queues"])
    finally:
        found.close()


def _compared(
    store: Store, queues: QueueSet, dispatched: int, rows: list[list[Any]]
) -> Iterator[Finding]:
    begins = {(topic, number): offset for topic, number, offset in store.retained.queues}
    ends = dict(begins)
    for row in map(QueueRow.of, rows):
        queue = queues.queue(row.topic, row.number)
        begin = min(begins.get((row.topic, row.number), 0), row.end)
        row.resume(queue, min_offset=max(row.min_offset, begin))
        if not queue.is_whole():
            detail = "its files are not what was written"
            yield Finding(kind=Kind.QUEUES, place=_name(queue), detail=detail)
    for frame in store.frames(stop=dispatched):
        stretch = Stretch([frame])
        all_entries = stretch.entries()
        for run in stretch.runs:
            entries = all_entries[run.rows]
            queue = queues.queue(run.topic, run.queue)
            ends[run.topic, run.queue] = run.first_queue_offset + len(entries)
            # Entries of messages that are hidden may be gone before the messages are.
            first = max(run.first_queue_offset, queue.min_offset)
            entries = entries[first - run.first_queue_offset :]
            stop = min(first + len(entries), queue.end)
            if not queue.end or stop <= first:
                continue
            try:
                kept = queue.read(first, stop - first)
            except EngineError as error:
                yield Finding(kind=Kind.QUEUES, place=_name(queue), detail=str(error))
                queue.resume(min_offset=0, end=0)
                continue
            wrong = np.flatnonzero(kept != entries[: len(kept)].astype(kept.dtype))
            for at in wrong.tolist():
                detail = f"entry {first + at} is not that of its record"
                yield Finding(kind=Kind.QUEUES, place=_name(queue), detail=detail)
    for queue in queues:
        end = ends.get((queue.topic, queue.queue), queue.min_offset)
        lost = store.quarantine.lost(queue.topic, queue.queue)
        if len(lost):
            end = max(end, int(lost[-1]) + 1)
        if queue.end and end != queue.end:
            detail = f"{queue.end} entries, and the log has messages up to {end}"
            yield Finding(kind=Kind.QUEUES, place=_name(queue), detail=detail)


def _name(queue: ConsumeQueue) -> str:
    return f"consume queue {queue.topic}/{queue.queue}"


def _file_entries(store: Store) -> int:
    """Return how many entries a file has: the names of files that are not the first say so."""
    steps = [
        int(name) // QUEUE_ENTRY_BYTES
        for topic in store.disk.names("consumequeue")
        for number in store.disk.names(f"consumequeue/{topic}")
        for name in store.disk.names(f"consumequeue/{topic}/{number}")
        if name.isdigit() and int(name)
    ]
    default = EngineConfig().consume_queue_file_entries
    return default if not any(step % default for step in steps) else gcd(*steps)
