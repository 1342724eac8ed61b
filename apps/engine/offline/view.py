"""A look at a store while its broker writes: which messages are there for good, and where.

Knows checkpoints, the catalog and the end of the log; reads no records. What is shown was synced:
either a checkpoint says so, or a frame of the log itself (docs/adr/0021-what-a-foreign-reader-may-
see.md). A view is refreshed by its holder and never moves by itself.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker import catalogfile
from apps.engine.broker.catalog import FILE as CATALOG
from apps.engine.codec import layout
from apps.engine.derived.queueset import CHECKPOINT, QueueRow
from apps.engine.errors import InvalidArgument, StoreDamaged, UnknownQueue, UnknownTopic
from apps.engine.files import atomic
from apps.engine.files.backend import Disk
from apps.engine.log.checkpoint import load_checkpoint
from apps.engine.log.tail import Frame
from apps.engine.offline.entries import EntryFiles
from apps.engine.offline.kept import KeptRange, kept_offsets, kept_range
from apps.engine.offline.opened import OpenedStore
from apps.engine.offline.slices import QueueExtent, QueueSlice
from apps.engine.offline.tail import Key, QueueTail, collect, step
from apps.engine.types import Cleanup, TopicSpec

_SYSTEM = (
    layout.SYSTEM_PREFIX,
    layout.SCHEDULE_TOPIC,
    layout.HALF_TOPIC,
    layout.HALF_OP_TOPIC,
    layout.GIVEN_UP_TOPIC,
)
_OWN = (*_SYSTEM, layout.RETRY_PREFIX, layout.DEAD_LETTER_PREFIX, layout.LITE_PREFIX)
_OFFSETS = np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class _Known:
    """A queue as the checkpoint of consume queues has it."""

    min_offset: int
    end: int


_NOT_KNOWN = _Known(0, 0)


class StoreView:
    """One store; `refresh` looks again. Not for several threads at once."""

    def __init__(self, path: Path, *, is_unsynced_shown: bool = False) -> None:
        """Look at the store in a directory.

        With `is_unsynced_shown` messages are shown that a power cut could take back. Raises
        InvalidArgument where there is no store, StoreDamaged, ForeignSegment or UnknownFormat.
        """
        self.store = OpenedStore(path)
        self.is_unsynced_shown = is_unsynced_shown
        self.synced_offset = 0
        self._topics: dict[str, int] = {}
        self._compacted: set[str] = set()
        self._kept: dict[Key, KeptRange | None] = {}
        self._known: dict[Key, _Known] = {}
        self._begins: dict[Key, int] = {}
        self._dispatched = -1
        self._position = 0
        self._tails: dict[Key, QueueTail] = {}
        self._fresh: dict[Key, QueueTail] = {}
        self._look()

    def refresh(self) -> None:
        """Look at the store again. Raises StoreDamaged or ForeignSegment."""
        self.store.refresh()
        self._look()

    def _look(self) -> None:
        store = self.store
        self._begins = {(topic, queue): offset for topic, queue, offset in store.retained.queues}
        specs = _topics(store.disk)
        self._topics = {spec.name: spec.queue_count for spec in specs}
        self._compacted = {spec.name for spec in specs if spec.cleanup is Cleanup.COMPACT}
        self._kept.clear()
        dispatched = self._load_queues()
        checkpoint = load_checkpoint(store.disk)
        if checkpoint is not None:
            self.synced_offset = max(self.synced_offset, checkpoint.synced_offset)
        self.synced_offset = max(self.synced_offset, dispatched)
        if not self.store.segments.start <= self._position or dispatched < self._dispatched:
            # The queues are made anew, or the log was cut: nothing known of its end holds.
            self._tails.clear()
            self._position = 0
        for tail in self._tails.values():
            tail.drop_below(dispatched)
        self._dispatched = dispatched
        self._position = max(self._position, dispatched, self.store.segments.start)
        self._walk()

    def close(self) -> None:
        """Close the files of the log."""
        self.store.close()

    # --- what is there -------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Return the topics of the catalog, sorted, and those of the broker that hold messages."""
        own = {topic for topic, _ in self._keys() if topic.startswith(_OWN)}
        return sorted(own.union(self._topics))

    def matching(self, pattern: str) -> list[str]:
        """Return the topics a regular expression matches whole; the broker's inner ones do not.

        Raises InvalidArgument for a text that is no expression.
        """
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise InvalidArgument(f"{pattern!r} is no regular expression: {error}") from error
        return [
            topic
            for topic in self.topics()
            if wanted.fullmatch(topic) and not topic.startswith(_SYSTEM)
        ]

    def extents(self, topic: str) -> list[QueueExtent]:
        """Return the queues of a topic in order, empty ones among them.

        Raises UnknownTopic; StoreDamaged where nobody can tell what is kept of a compacted topic.
        """
        if topic not in self._topics and not topic.startswith(_OWN):
            raise UnknownTopic(f"the store has no topic {topic}")
        numbers = {queue for name, queue in self._keys() if name == topic}
        if not numbers and topic not in self._topics:
            raise UnknownTopic(f"the store has no messages of {topic}")
        return [
            self._extent(topic, queue)
            for queue in sorted(numbers.union(range(self._topics.get(topic, 0))))
        ]

    def is_compacted(self, topic: str) -> bool:
        """Tell whether of a topic only the newest message of each key is kept."""
        return topic in self._compacted

    def extent(self, topic: str, queue: int) -> QueueExtent:
        """Return one queue. Raises UnknownTopic or UnknownQueue."""
        for found in self.extents(topic):
            if found.queue == queue:
                return found
        raise UnknownQueue(f"topic {topic} has no queue {queue}")

    def cut(self, topic: str, queue: int, start: int, stop: int) -> QueueSlice:
        """Return what a reader needs to find messages `start` up to, not with, `stop`."""
        key = (topic, queue)
        known = self._known.get(key)
        kept = self._kept_of(key)
        kept_stop = 0 if kept is None else kept.stop
        tail_start = max(start, kept_stop, known.end if known is not None else start)
        if tail_start >= stop:
            return QueueSlice(
                topic=topic, queue=queue, start=start, stop=stop, tail_start=stop,
                kept_stop=kept_stop,
            )  # fmt: skip
        parts = [
            tails[key].frames_of(tail_start, stop)
            for tails in (self._tails, self._fresh)
            if key in tails and len(tails[key].frames)
        ]
        frames = np.concatenate(parts) if parts else np.empty(0, dtype=_OFFSETS)
        return QueueSlice(
            topic=topic,
            queue=queue,
            start=start,
            stop=stop,
            tail_start=tail_start,
            frames=frames.astype(_OFFSETS).tobytes(),
            kept_stop=kept_stop,
        )

    def kept(self, topic: str, queue: int, start: int, stop: int) -> tuple[int, NDArray[np.int64]]:
        """Return up to which offset only kept messages are there, and which of a stretch those are.

        0 and none for a queue of which nothing was compacted. Raises StoreDamaged.
        """
        found = self._kept_of((topic, queue))
        if found is None:
            return 0, np.empty(0, dtype=_OFFSETS)
        return found.stop, kept_offsets(self.store, topic, queue, start, min(stop, found.stop))

    def log_offset(self, wanted: QueueSlice) -> int:
        """Return a log offset no message of a slice lies below: the start of the log at the least.

        Messages of which the files have no entry any more lie nowhere else, and kept ones beside
        the log.
        """
        start = max(wanted.start, wanted.kept_stop)
        if start >= wanted.stop:
            return self.synced_offset
        if start < wanted.tail_start:
            try:
                entries = EntryFiles(self.store.disk, wanted.topic, wanted.queue)
                found = int(entries.read(start, start + 1)["log_offset"][0])
            except StoreDamaged:
                return self.store.segments.start
            # Its frame begins before it, in the same segment.
            return max(self.store.segments.base(found), self.store.segments.start)
        frames = np.frombuffer(wanted.frames, dtype=_OFFSETS)
        return int(frames[0]) if len(frames) else self.synced_offset

    # --- looking -------------------------------------------------------------------------------

    def _keys(self) -> Iterable[Key]:
        return {*self._known, *self._begins, *self._tails, *self._fresh}

    def _extent(self, topic: str, queue: int) -> QueueExtent:
        key = (topic, queue)
        known = self._known.get(key, _NOT_KNOWN)
        begin = self._begin_of(key)
        ends = [tails[key].end for tails in (self._tails, self._fresh) if key in tails]
        end = max(begin, known.end, *ends, 0)
        kept = self._kept_of(key)
        if kept is not None:
            # What a round has read was synced, whatever the last checkpoint says.
            begin, end = min(begin, kept.begin), max(end, kept.stop)
        return QueueExtent(topic=topic, queue=queue, min_offset=begin, max_offset=end)

    def _kept_of(self, key: Key) -> KeptRange | None:
        if key[0] not in self._compacted:
            return None
        if key not in self._kept:
            kept = kept_range(self.store, *key)
            # Messages that were deleted with their topic are hidden, kept or not.
            is_hidden = kept is None or self._begin_of(key) > kept.stop
            self._kept[key] = None if is_hidden else kept
        return self._kept[key]

    def _begin_of(self, key: Key) -> int:
        """Return where a queue begins in the log."""
        return max(self._known.get(key, _NOT_KNOWN).min_offset, self._begins.get(key, 0))

    def _load_queues(self) -> int:
        content = atomic.load(self.store.disk, CHECKPOINT)
        if content is None:
            self._known = {}
            return self.store.segments.start
        try:
            self._known = {
                (row.topic, row.number): _Known(row.min_offset, row.end)
                for row in map(QueueRow.of, content["queues"])
            }
            return int(content["dispatched_offset"])
        except (KeyError, TypeError, ValueError) as error:
            raise StoreDamaged(f"{CHECKPOINT} holds something else than queues") from error

    def _walk(self) -> None:
        """Take up the frames behind the files of the queues, as far as they are proven."""
        position = self._position
        waiting: list[Frame] = []
        is_last = False
        while not is_last:
            found = step(
                self.store.segments,
                position=position,
                synced=self.synced_offset,
                store_id=self.store.identity.store_id,
                quarantine=self.store.quarantine,
            )
            position, is_last = found.position, found.is_last
            self.synced_offset = found.synced
            waiting += found.frames
            proven = [frame for frame in waiting if frame.end <= self.synced_offset]
            del waiting[: len(proven)]
            collect(proven, self._tails)
            if proven:
                self._position = proven[-1].end
        self._fresh = {}
        if self.is_unsynced_shown:
            collect(waiting, self._fresh)


def _topics(disk: Disk) -> list[TopicSpec]:
    """Return the topics of the catalog; none where it was never published."""
    content: dict[str, Any] | None = atomic.load(disk, CATALOG)
    if content is None:
        return []
    try:
        return list(catalogfile.load(content).topics.values())
    except (KeyError, TypeError, ValueError) as error:
        raise StoreDamaged(f"{CATALOG} holds something else than a catalog") from error
