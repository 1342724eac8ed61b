"""All consume queues of a store: what readers may see of them, and their checkpoint.

Knows queues and log offsets; nothing of groups or requests. A queue's entries become visible when
the log is synced past them, so nobody reads what a power cut could take back.
"""

import logging
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, NamedTuple, Self

from apps.engine.codec.layout import LITE_PREFIX, QUEUE_ENTRY_BYTES
from apps.engine.codec.litenames import is_lite
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import FLUSH_ENTRIES, ConsumeQueue
from apps.engine.derived.filecache import FileCache
from apps.engine.derived.names import queue_directory
from apps.engine.derived.remaking import QueueRemaking
from apps.engine.errors import Busy, EngineError, StoreDamaged, UnknownFormat
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk

_log = logging.getLogger(__name__)
CHECKPOINT = "checkpoint/consumequeue"
# Entries of lite topics that stay in memory and in the checkpoint; of those that have more, so many
# queues at a time get files: each new one takes milliseconds.
_TAIL_ENTRIES = 64
_TAILS_FLUSHED = 16


class QueueRow(NamedTuple):
    """A queue as the checkpoint has it: its files up to `filed`, and the entries behind them."""

    topic: str
    number: int
    min_offset: int
    filed: int
    sums: Sequence[tuple[int, int, int]]
    tail: bytes

    @property
    def end(self) -> int:
        """Return where the queue ends."""
        return self.filed + len(self.tail) // QUEUE_ENTRY_BYTES

    @classmethod
    def row(cls, queue: ConsumeQueue) -> list[object]:
        """Return what a checkpoint is to say of a queue."""
        row: list[object] = [
            queue.topic, queue.queue, queue.entries_from, queue.flushed, queue.sums
        ]  # fmt: skip
        if queue.end > queue.flushed and is_lite(queue.topic):
            row.append(b64encode(queue.tail).decode())
        return row

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Return what a row says. Raises TypeError or ValueError for anything else."""
        topic, number, min_offset, filed, *more = row
        sums = more[0] if more else ()
        tail = b64decode(more[1], validate=True) if len(more) > 1 else b""
        if len(tail) % QUEUE_ENTRY_BYTES:
            raise ValueError(f"queue {topic}/{number} has a part of an entry")
        return cls(str(topic), int(number), int(min_offset), int(filed), sums, tail)

    def resume(self, queue: ConsumeQueue, *, min_offset: int) -> None:
        """Let a queue go on as the row says, begun at `min_offset`."""
        queue.resume(min_offset=min_offset, end=self.filed, sums=self.sums, tail=self.tail)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCheckpoint:
    """What is to be made durable: the content, the files under it, and the log it stands on."""

    content: dict[str, object]
    paths: tuple[str, ...]
    log_offset: int
    """The log must be synced up to here before the checkpoint may be written."""
    dispatched_offset: int
    begins: dict[tuple[str, int], int]
    number: int


class QueueSet:
    """Consume queues by topic and number, made when first named."""

    def __init__(self, disk: Disk, *, config: EngineConfig, failpoints: Failpoints) -> None:
        """Bind to a store; `load` fills it."""
        self._disk = disk
        self._failpoints = failpoints
        self._file_entries = config.consume_queue_file_entries
        self._files = FileCache(disk)
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        # The same queues: a look at some topics does not pass all queues of a large store.
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}
        # Without lite topics, which are the many.
        self._plain_topics: dict[str, None] = {}
        self._pending: deque[tuple[int, ConsumeQueue, int]] = deque()
        self._dirty_queues: set[ConsumeQueue] = set()
        self._dirty_paths: set[str] = set()
        self._unsynced_paths: list[str] = []
        self.dispatched_offset = 0
        self.checkpoint_offset = 0
        self.durable_offset = 0
        self._durable_begins: dict[tuple[str, int], int] = {}
        self._cleaned: dict[tuple[str, int], int] = {}
        # Where queues that were left end: they are made again there when they are named.
        self._left: dict[tuple[str, int], int] = {}
        # Of those, the ones no checkpoint is to know any more, and how many were begun before.
        self._omitted: dict[tuple[str, int], int] = {}
        self._begun = 0
        self._durable_number = 0
        # Directories of queues that were left; of some of them a thread removes the files now.
        self._empty: dict[tuple[str, int], None] = {}
        self._emptying: set[tuple[str, int]] = set()
        # Files that are not what was written, in the order in which they are made again.
        self._damaged: dict[tuple[ConsumeQueue, int], None] = {}
        # Those of them that the log does not make again.
        self._lost: set[tuple[ConsumeQueue, int]] = set()

    def load(
        self, *, log_start: int, log_end: int, starts: Collection[tuple[str, int, int]] = ()
    ) -> int:
        """Take up the checkpoint and return the log offset to dispatch from.

        A checkpoint that is absent, damaged or ahead of the log, or of which the files are not
        what was written, is dropped and everything is dispatched again: the queues are derived.
        All files are read for that, 20 bytes a message. `starts` are topic, queue and first queue
        offset of the messages from `log_start` on; others begin at 0.
        """
        try:
            content = atomic.load(self._disk, CHECKPOINT)
        except (StoreDamaged, UnknownFormat) as error:
            _log.warning("consume_queues_rebuilt", extra={"reason": str(error)})
            content = None
        begins = {(topic, number): offset for topic, number, offset in starts}
        if content is None or not log_start <= int(content["dispatched_offset"]) <= log_end:
            self._resume(begins)
            return log_start
        for row in map(QueueRow.of, content["queues"]):
            begin = min(begins.pop((row.topic, row.number), 0), row.end)
            queue = self.queue(row.topic, row.number)
            row.resume(queue, min_offset=max(row.min_offset, begin))
            self._durable_begins[row.topic, row.number] = row.min_offset
        damaged = [queue for queue in self._queues.values() if not queue.is_whole()]
        if damaged:
            reason = f"files of {damaged[0].topic}/{damaged[0].queue} are not what was written"
            _log.warning("consume_queues_rebuilt", extra={"reason": reason})
            self._queues.clear()
            self._topics.clear()
            self._plain_topics.clear()
            self._durable_begins.clear()
            self._resume({(topic, number): offset for topic, number, offset in starts})
            return log_start
        self._resume(begins)
        self.dispatched_offset = self.checkpoint_offset = int(content["dispatched_offset"])
        self.durable_offset = self.dispatched_offset
        return self.dispatched_offset

    def _resume(self, begins: dict[tuple[str, int], int]) -> None:
        for place, begin in begins.items():
            self.queue(*place).resume(min_offset=begin, end=begin)

    def queue(self, topic: str, number: int) -> ConsumeQueue:
        """Return the queue, empty when it was never written to."""
        key = (topic, number)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = ConsumeQueue(
                topic,
                number,
                files=self._files,
                file_entries=self._file_entries,
                condemn=self._condemn,
            )
            self._topics.setdefault(topic, {})[number] = queue
            if not is_lite(topic):
                self._plain_topics[topic] = None
            end = self._left.pop(key, None)
            if end is not None:
                queue.resume(min_offset=end, end=end)
                self._omitted.pop(key, None)
                self._empty.pop(key, None)
        return queue

    def find(self, topic: str, number: int) -> ConsumeQueue | None:
        """Return the queue, None when it was never named: asking makes none."""
        return self._queues.get((topic, number))

    @property
    def topics(self) -> Set[str]:
        """Return the topics of which a queue was ever named."""
        return self._topics.keys()

    def topics_like(self, prefix: str) -> list[str]:
        """Return the topics with a prefix of which a queue was ever named.

        Lite topics are looked at only where the prefix may be theirs.
        """
        may_be_lite = LITE_PREFIX.startswith(prefix[: len(LITE_PREFIX)])
        names = self._topics if may_be_lite else self._plain_topics
        return [topic for topic in names if topic.startswith(prefix)]

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """Return the queues of a topic that were ever named, by number."""
        queues = self._topics.get(topic, {})
        return [queues[number] for number in sorted(queues)]

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """Iterate over the queues ever named."""
        return iter(list(self._queues.values()))

    def added(self, queue: ConsumeQueue, *, frame_end: int) -> None:
        """Note that `queue` got entries for records of a frame that ends at `frame_end`."""
        self._pending.append((frame_end, queue, queue.end))
        self._dirty_queues.add(queue)
        self.dispatched_offset = frame_end
        if queue.end - queue.flushed >= FLUSH_ENTRIES:
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
        short = [queue for queue in self._dirty_queues if is_lite(queue.topic)]
        self._dirty_queues.difference_update(short)
        # A file of its own costs a lite topic more than all else about it.
        long = [queue for queue in short if queue.unflushed >= _TAIL_ENTRIES]
        self._dirty_queues.update(nlargest(_TAILS_FLUSHED, long, key=lambda q: q.unflushed))
        for queue in list(self._dirty_queues):
            self._flush(queue)
        self._failpoints.hit("derived.after_flush")
        paths = tuple(self._dirty_paths.union(self._unsynced_paths))
        self._dirty_paths.clear()
        self._unsynced_paths.clear()
        queues = [QueueRow.row(queue) for queue in self._queues.values()]
        queues += [
            [*place, end, end, []]
            for place, end in self._left.items()
            if place not in self._omitted
        ]
        self._begun += 1
        # Where a full disk kept entries in memory, the checkpoint may not claim them.
        whole = not self._dirty_queues
        offset = self.dispatched_offset if whole else self.checkpoint_offset
        content: dict[str, object] = {"dispatched_offset": offset, "queues": queues}
        return QueueCheckpoint(
            content=content,
            begins={(q.topic, q.queue): q.entries_from for q in self._queues.values()} | self._left,
            number=self._begun,
            paths=paths,
            log_offset=self.dispatched_offset,
            dispatched_offset=offset,
        )

    def finish_checkpoint(self, checkpoint: QueueCheckpoint) -> Callable[[], None]:
        """Return what to run in a thread once the log is synced past `checkpoint.log_offset`."""

        def write() -> None:
            try:
                for path in checkpoint.paths:
                    try:
                        file = self._disk.open(path)
                    except FileNotFoundError:
                        self._missing(path)
                        continue
                    try:
                        file.sync()
                    finally:
                        file.close()
            except EngineError:
                # The next checkpoint may not claim what this one has not synced.
                self._unsynced_paths.extend(checkpoint.paths)
                raise
            atomic.replace(self._disk, CHECKPOINT, checkpoint.content, failpoints=self._failpoints)
            self.durable_offset = checkpoint.dispatched_offset
            self._durable_begins = checkpoint.begins
            self._durable_number = checkpoint.number

        self.checkpoint_offset = checkpoint.dispatched_offset
        return write

    def begin_cleaning(self) -> Callable[[], int]:
        """Return what removes the files of entries that no queue has any more; for a thread.

        It returns how many files that were. Only what a checkpoint on the disk has given up goes,
        so that a crash at any moment finds the entries it begins with.
        """
        paths: list[str] = []
        emptying: list[tuple[str, int]] = []
        for place, begin in self._durable_begins.items():
            queue = self._queues.get(place)
            first_file = begin // self._file_entries
            if queue is None and self._left.get(place) == begin and place in self._empty:
                del self._empty[place]
                emptying.append(place)
            if queue is None or self._cleaned.get(place, 0) >= first_file:
                continue
            paths += queue.paths_below(begin)
            self._cleaned[place] = first_file

        self._emptying.update(emptying)

        def remove() -> int:
            for path in paths:
                self._disk.remove(path)
            for directory in {path.rpartition("/")[0] for path in paths}:
                self._disk.sync_directory(directory)
            count = len(paths)
            for place in emptying:
                count += self._remove_files(queue_directory(*place))
                self._emptying.discard(place)
            return count

        return remove

    def _remove_files(self, directory: str) -> int:
        """Remove a queue's directory, and its topic's where that is empty; for a thread."""
        if not self._disk.exists(directory):
            return 0
        names = self._disk.names(directory)
        for name in names:
            self._disk.remove(f"{directory}/{name}")
        self._disk.sync_directory(directory)
        while directory.count("/") and not self._disk.names(directory):
            self._disk.remove_directory(directory)
            directory = directory.rpartition("/")[0]
            self._disk.sync_directory(directory)
        return len(names)

    # --- queues that are left ------------------------------------------------------------------

    def leave(self, queue: ConsumeQueue) -> None:
        """Forget a queue but for where it ends; named again, it goes on there, empty.

        All of it is synced, and readers see none of it any more. Its files go once a checkpoint on
        the disk says so.
        """
        assert queue.end == queue.visible == queue.min_offset
        place = (queue.topic, queue.queue)
        del self._queues[place]
        numbers = self._topics[queue.topic]
        del numbers[queue.queue]
        if not numbers:
            del self._topics[queue.topic]
            self._plain_topics.pop(queue.topic, None)
        if queue.end:
            self._left[place] = queue.end
        self._dirty_queues.discard(queue)
        self._cleaned.pop(place, None)
        for damaged in [one for one in self._damaged if one[0] is queue]:
            del self._damaged[damaged]
        self._lost = {one for one in self._lost if one[0] is not queue} if self._lost else set()
        if queue.forget_files():
            self._empty[place] = None

    def left_end(self, topic: str, number: int) -> int | None:
        """Return where a queue that was left ends; None for any other."""
        return self._left.get((topic, number))

    def omit(self, topic: str, number: int) -> None:
        """Have no checkpoint know any more of a queue that was left."""
        if (topic, number) in self._left:
            self._omitted.setdefault((topic, number), self._begun)

    def is_omitted(self, topic: str, number: int) -> bool:
        """Say whether the checkpoint on the disk knows nothing of a queue that was to be omitted.

        No older one will be written any more, and no message has come since that was asked for.
        """
        begun = self._omitted.get((topic, number))
        return begun is not None and self._durable_number > begun

    def drop(self, topic: str, number: int) -> None:
        """Forget where a queue ends that is omitted: named again, it begins at 0."""
        assert self.is_omitted(topic, number)
        place = (topic, number)
        del self._left[place], self._omitted[place]

    # --- files that are made again -------------------------------------------------------------

    @property
    def damaged_files(self) -> int:
        """Return how many files were met that are not what was written, and are not made again."""
        return len(self._damaged)

    def remaking(self) -> QueueRemaking | None:
        """Begin to make a damaged file again; None where there is none that could be."""
        for queue, number in list(self._damaged):
            if queue.number_of(queue.path(number)) is None:
                # Retention has passed it meanwhile.
                del self._damaged[queue, number]
            elif (queue, number) not in self._lost:
                return QueueRemaking(
                    self._disk,
                    queue,
                    number,
                    file_entries=self._file_entries,
                    failpoints=self._failpoints,
                )
        return None

    def remade(self, made: QueueRemaking) -> bool:
        """Read the file again that `made` has written; False where it must be made once more."""
        if not made.take_place():
            return False
        del self._damaged[made.queue, made.number]
        _log.warning("consume_queue_remade", extra={"file": made.path})
        return True

    def give_up(self, made: QueueRemaking) -> None:
        """Leave a file to the next start: the log does not have all of it."""
        self._lost.add((made.queue, made.number))
        reason = "the log does not have all of it"
        _log.error("consume_queue_not_remade", extra={"file": made.path, "error": reason})

    def postpone(self, made: QueueRemaking, error: EngineError) -> None:
        """Let other files be made again before this one is tried once more."""
        self._damaged[made.queue, made.number] = self._damaged.pop((made.queue, made.number))
        _log.error("consume_queue_not_remade", extra={"file": made.path, "error": str(error)})

    def _condemn(self, queue: ConsumeQueue, number: int, reason: str) -> None:
        if (queue, number) not in self._damaged:
            self._damaged[queue, number] = None
            path = queue.path(number)
            _log.error("consume_queue_damaged", extra={"file": path, "reason": reason})

    def _missing(self, path: str) -> None:
        """Note that a file is gone; for a thread. What retention has removed is nothing to note."""
        for queue in self:
            if path.startswith(f"{queue_directory(queue.topic, queue.queue)}/"):
                number = queue.number_of(path)
                if number is not None:
                    self._condemn(queue, number, "it is missing")

    def close(self) -> None:
        """Close the files; what was not checkpointed is dispatched again at the next start."""
        self._files.close()

    def _flush(self, queue: ConsumeQueue) -> None:
        if (queue.topic, queue.queue) in self._emptying:
            return  # Its directory is being removed: they stay in memory until that is over.
        try:
            self._dirty_paths.update(queue.flush())
        except Busy:
            # Entries stay in memory. Where the disk is full, the log's own check refuses sends.
            return
        self._dirty_queues.discard(queue)
