"""All consume queues of a store: what readers may see of them, and their checkpoint.

Knows queues and log offsets; nothing of groups or requests. A queue's entries become visible when
the log is synced past them, so nobody reads what a power cut could take back.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import FLUSH_ENTRIES, ConsumeQueue
from apps.engine.derived.filecache import FileCache
from apps.engine.errors import StoreDamaged, StoreFull, UnknownFormat
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk

_log = logging.getLogger(__name__)
CHECKPOINT = "checkpoint/consumequeue"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCheckpoint:
    """What is to be made durable: the content, the files under it, and the log it stands on."""

    content: dict[str, object]
    paths: tuple[str, ...]
    log_offset: int
    """The log must be synced up to here before the checkpoint may be written."""
    dispatched_offset: int


class QueueSet:
    """Consume queues by topic and number, made when first named."""

    def __init__(self, disk: Disk, *, config: EngineConfig, failpoints: Failpoints) -> None:
        """Bind to a store; `load` fills it."""
        self._disk = disk
        self._failpoints = failpoints
        self._file_entries = config.consume_queue_file_entries
        self._files = FileCache(disk)
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._pending: deque[tuple[int, ConsumeQueue, int]] = deque()
        self._dirty_queues: set[ConsumeQueue] = set()
        self._dirty_paths: set[str] = set()
        self.dispatched_offset = 0
        self.checkpoint_offset = 0

    def load(self, *, log_start: int, log_end: int) -> int:
        """Take up the checkpoint and return the log offset to dispatch from.

        A checkpoint that is absent, damaged or ahead of the log, or of which the files are not
        what was written, is dropped and everything is dispatched again: the queues are derived.
        All files are read for that, 20 bytes a message.
        """
        try:
            content = atomic.load(self._disk, CHECKPOINT)
        except (StoreDamaged, UnknownFormat) as error:
            _log.warning("consume_queues_rebuilt", extra={"reason": str(error)})
            content = None
        if content is None or not log_start <= int(content["dispatched_offset"]) <= log_end:
            return log_start
        for topic, number, min_offset, end, *sums in content["queues"]:
            self.queue(topic, number).resume(
                min_offset=min_offset, end=end, sums=sums[0] if sums else ()
            )
        damaged = [queue for queue in self._queues.values() if not queue.is_whole()]
        if damaged:
            reason = f"files of {damaged[0].topic}/{damaged[0].queue} are not what was written"
            _log.warning("consume_queues_rebuilt", extra={"reason": reason})
            self._queues.clear()
            return log_start
        self.dispatched_offset = self.checkpoint_offset = int(content["dispatched_offset"])
        return self.dispatched_offset

    def queue(self, topic: str, number: int) -> ConsumeQueue:
        """Return the queue, empty when it was never written to."""
        key = (topic, number)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = ConsumeQueue(
                topic, number, files=self._files, file_entries=self._file_entries
            )
        return queue

    def find(self, topic: str, number: int) -> ConsumeQueue | None:
        """Return the queue, None when it was never named: asking makes none."""
        return self._queues.get((topic, number))

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """Iterate over the queues ever named."""
        return iter(list(self._queues.values()))

    def added(self, queue: ConsumeQueue, *, frame_end: int) -> None:
        """Note that `queue` got entries for records of a frame that ends at `frame_end`."""
        self._pending.append((frame_end, queue, queue.end))
        self._dirty_queues.add(queue)
        self.dispatched_offset = frame_end
        if queue.unflushed >= FLUSH_ENTRIES:
            self._flush(queue)

    def show(self, synced_offset: int) -> dict[tuple[str, int], int]:
        """Make visible what lies below `synced_offset`.

        Returns the queues that got longer, and the queue offset from which on it is new.
        """
        grown: dict[tuple[str, int], int] = {}
        pending = self._pending
        while pending and pending[0][0] <= synced_offset:
            _, queue, end = pending.popleft()
            grown.setdefault((queue.topic, queue.queue), queue.visible)
            queue.visible = end
        return grown

    def begin_checkpoint(self) -> QueueCheckpoint:
        """Write out what is in memory and say what must be synced before it counts."""
        self._failpoints.hit("derived.before_flush")
        for queue in list(self._dirty_queues):
            self._flush(queue)
        self._failpoints.hit("derived.after_flush")
        paths = tuple(self._dirty_paths)
        self._dirty_paths.clear()
        queues = [
            [q.topic, q.queue, q.min_offset, q.flushed, q.sums] for q in self._queues.values()
        ]
        # Where a full disk kept entries in memory, the checkpoint may not claim them.
        whole = not self._dirty_queues
        offset = self.dispatched_offset if whole else self.checkpoint_offset
        content: dict[str, object] = {"dispatched_offset": offset, "queues": queues}
        return QueueCheckpoint(
            content=content,
            paths=paths,
            log_offset=self.dispatched_offset,
            dispatched_offset=offset,
        )

    def finish_checkpoint(self, checkpoint: QueueCheckpoint) -> Callable[[], None]:
        """Return what to run in a thread once the log is synced past `checkpoint.log_offset`."""

        def write() -> None:
            for path in checkpoint.paths:
                file = self._disk.open(path)
                try:
                    file.sync()
                finally:
                    file.close()
            atomic.replace(self._disk, CHECKPOINT, checkpoint.content, failpoints=self._failpoints)

        self.checkpoint_offset = checkpoint.dispatched_offset
        return write

    def close(self) -> None:
        """Close the files; what was not checkpointed is dispatched again at the next start."""
        self._files.close()

    def _flush(self, queue: ConsumeQueue) -> None:
        try:
            self._dirty_paths.update(queue.flush())
        except StoreFull:
            # Entries stay in memory; sends are refused by the log's own check of the disk.
            return
        self._dirty_queues.discard(queue)
