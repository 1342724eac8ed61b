"""A whole broker on one store: every layer composed, every verb answered from what is there now.

Knows all of the engine below; waits for nothing and nobody. Waiting belongs to `apps.engine.local`.
Single-threaded: all calls come from one thread, except those said to be for a thread.
"""

from collections.abc import Callable, Collection

from apps.engine.broker.ack import Ack
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.fetch import check_amounts, fetch
from apps.engine.broker.handles import Handles
from apps.engine.broker.journal import Trim
from apps.engine.broker.offsets import Offsets
from apps.engine.broker.pop import Pop
from apps.engine.broker.produce import Appender
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.replay import CHECKPOINT, replay
from apps.engine.broker.sessions import Sessions
from apps.engine.broker.state import ConsumerState
from apps.engine.clock import Clock
from apps.engine.codec.layout import JOURNAL_TOPIC, SYSTEM_PREFIX
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.dispatch import dispatch
from apps.engine.derived.queueset import QueueSet
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk
from apps.engine.limits import SESSIONS_MAX
from apps.engine.log.commitlog import CommitLog
from apps.engine.types import (
    CatalogSnapshot,
    PullRequest,
    PullResult,
    QueueRange,
    ReceiveRequest,
    ReceiveResult,
)


class Broker:
    """The engine without waiting. Built by `open_broker`."""

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        *,
        config: EngineConfig,
        clock: Clock,
        failpoints: Failpoints,
    ) -> None:
        """Compose the layers on an open log and bring derived and consumer state up to its end."""
        self._disk = disk
        self._failpoints = failpoints
        self.clock = clock
        self.log = log
        self.queues = QueueSet(disk, config=config, failpoints=failpoints)
        self.catalog = Catalog(disk, failpoints=failpoints)
        self.state = ConsumerState(clock)
        start = self.queues.load(log_start=log.log_start, log_end=log.written_offset)
        self.dispatched_records = dispatch(log.frames(start), self.queues)
        self.queues.show(log.synced_offset)
        content = atomic.load(disk, CHECKPOINT)
        self.replayed_events = replay(content, self.state, log=log, queues=self.queues)
        self.appender = Appender(log, self.queues, self.catalog, config=config)
        self.recorder = Recorder(self.appender, self.state, clock=clock, failpoints=failpoints)
        self.handles = Handles(log.store_id)
        self.pop = Pop(
            log=log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            handles=self.handles,
            clock=clock,
        )
        self.settler = Ack(self.state, self.recorder, self.handles, clock=clock, epoch=log.epoch)
        self.offsets = Offsets(self.state, self.recorder, self.queues, self.catalog)
        self.sessions = Sessions(clock, sessions_max=SESSIONS_MAX)
        # A crash may have come between a topic's deletion and its trim.
        self._trim_deleted_topics()

    def publish_catalog(self, snapshot: CatalogSnapshot) -> None:
        """Obey a newer snapshot; the messages of a topic it no longer has are gone for readers."""
        if self.catalog.publish(snapshot):
            self._trim_deleted_topics()

    def check_pull(self, request: PullRequest) -> ConsumeQueue:
        """Return the queue of a pull; raise UnknownTopic, UnknownQueue, InvalidArgument."""
        check_amounts(request.messages_max, request.bytes_max, request.wait_ms)
        self.catalog.readable(request.topic, request.queue)
        return self.queues.queue(request.topic, request.queue)

    def pull(self, request: PullRequest, *, wait: bool = True) -> PullResult:
        """Read a queue. Raises ColdRead when `wait` is false and the disk would be waited for."""
        return fetch(self.log, self.check_pull(request), request, wait=wait)

    def receive(self, request: ReceiveRequest, *, wait: bool = True) -> ReceiveResult:
        """Hand out messages. Raises ColdRead when `wait` is false and the disk is needed."""
        self.pop.check(request)
        self.sessions.see(request)
        self.expire()
        return self.pop.receive(request, wait=wait)

    def expire(self) -> set[tuple[str, int]]:
        """Make due leases ready; return the queues that have messages to hand out again."""
        ready = self.state.leases.expire(self.clock.monotonic_ms())
        return {(entry.progress.topic, entry.progress.queue) for entry in ready}

    def show_synced(self) -> set[tuple[str, int]]:
        """Let readers see what is synced; return the queues that got longer."""
        return self.queues.show(self.log.synced_offset)

    def queue_ranges(self, topic: str) -> list[QueueRange]:
        """Return what each queue of a topic holds. Raises UnknownTopic."""
        spec = self.catalog.topic(topic)
        ranges = []
        for number in range(spec.queue_count):
            queue = self.queues.queue(topic, number)
            ranges.append(
                QueueRange(
                    topic=topic,
                    queue=number,
                    min_offset=min(queue.min_offset, queue.visible),
                    max_offset=queue.visible,
                )
            )
        return ranges

    def topic_ranges(self, topics: Collection[str] | None = None) -> dict[str, list[QueueRange]]:
        """Return what the queues of several topics hold, or of all; unknown ones are left out."""
        known = self.catalog.snapshot.topics
        names = known if topics is None else [name for name in topics if name in known]
        return {name: self.queue_ranges(name) for name in names}

    def _trim_deleted_topics(self) -> None:
        # A topic made again under the same name goes on counting, so that an offset names one
        # message for ever; what was sent before the deletion stays hidden.
        kept = self.catalog.snapshot.topics
        for queue in self.queues:
            is_gone = queue.topic not in kept and not queue.topic.startswith(SYSTEM_PREFIX)
            if is_gone and queue.end > queue.min_offset:
                trim = Trim(topic=queue.topic, queue=queue.queue, min_offset=queue.end)
                self.recorder.record(trim)
                queue.min_offset = queue.end

    def free_bytes(self) -> int:
        """Return how many bytes may still be written to the disk."""
        return self._disk.free_bytes()

    def begin_checkpoint(self) -> tuple[int, Callable[[], None]]:
        """Take a picture of derived and consumer state.

        Returns the log offset that must be synced first, and what to run in a thread then.
        """
        queues = self.queues.begin_checkpoint()
        content: dict[str, object] = {
            "journal_offset": self.queues.queue(JOURNAL_TOPIC, 0).end,
            **self.state.dump(),
        }

        def write() -> None:
            self.queues.finish_checkpoint(queues)()
            atomic.replace(self._disk, CHECKPOINT, content, failpoints=self._failpoints)

        return queues.log_offset, write

    def checkpoint(self) -> None:
        """Take a checkpoint on the spot, waiting for the disk."""
        _, write = self.begin_checkpoint()
        self.log.sync()
        self.show_synced()
        write()
        self.log.checkpoint()

    def close(self) -> None:
        """Sync, take a checkpoint and mark the store as cleanly stopped."""
        self.checkpoint()
        self.queues.close()
        self.log.close(clean=True)


def open_broker(
    disk: Disk, *, config: EngineConfig, clock: Clock, failpoints: Failpoints
) -> Broker:
    """Open the log, recover it, and build a broker on it.

    The caller holds the store's lock. Raises StoreDamaged, ForeignSegment or UnknownFormat.
    """
    log = CommitLog.open(disk, config=config, clock=clock, failpoints=failpoints)
    return Broker(disk, log, config=config, clock=clock, failpoints=failpoints)
