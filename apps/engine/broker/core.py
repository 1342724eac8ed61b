"""A whole broker on one store: every layer composed, every verb answered from what is there now.

Knows all of the engine below; waits for nothing and nobody. Waiting belongs to `apps.engine.local`.
Single-threaded: all calls come from one thread, except those said to be for a thread.
"""

from collections.abc import Callable, Collection, Set

import numpy as np

from apps.engine.broker.accesslock import AccessLocks
from apps.engine.broker.ack import Ack
from apps.engine.broker.assignment import Assigner
from apps.engine.broker.backlog import Backlog
from apps.engine.broker.begin import Begin
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.fences import Fences
from apps.engine.broker.fencing import Fencing
from apps.engine.broker.fetch import check_amounts, fetch
from apps.engine.broker.handles import Handles
from apps.engine.broker.journal import Trim
from apps.engine.broker.members import Members
from apps.engine.broker.membership import Membership
from apps.engine.broker.offsets import Offsets
from apps.engine.broker.pop import Pop
from apps.engine.broker.produce import Appender
from apps.engine.broker.queuelocks import QueueLocks
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.replay import CHECKPOINT, replay
from apps.engine.broker.sessions import Sessions
from apps.engine.broker.state import ConsumerState
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.clock import Clock
from apps.engine.codec.layout import JOURNAL_TOPIC, SYSTEM_PREFIX
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.derived.dispatch import dispatch
from apps.engine.derived.queueset import QueueSet
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk
from apps.engine.filters.subscription import compile_filter
from apps.engine.grouptypes import GroupHistory, Rebalance
from apps.engine.limits import GROUP_MEMBERS_MAX, MEMBERS_MAX, READERS_MAX, SESSIONS_MAX
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
        self.settler = Ack(self.state, self.recorder, self.handles, clock=clock, epoch=log.epoch)
        self.sessions = Sessions(clock, sessions_max=SESSIONS_MAX)
        self.times = StoreTimes(log)
        self.access = AccessLocks(clock, progress=self.state.progress, readers_max=READERS_MAX)
        self.offsets = Offsets(
            self.state, self.recorder, self.queues, self.catalog, access=self.access
        )
        self.begin = Begin(self.state, self.recorder, self.queues, self.catalog, self.times)
        self._compose_groups(config)
        self.pop = Pop(
            log=log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            handles=self.handles,
            locks=self.locks,
            clock=clock,
        )
        # A crash may have come between a topic's deletion and its trim.
        self._trim_deleted_topics()

    def _compose_groups(self, config: EngineConfig) -> None:
        """Compose what groups at work need: members, assignments, locks, and who may do what."""
        clock, fences = self.clock, Fences(self.log.epoch)
        self.members = Members(
            clock,
            timeout_ms=config.member_timeout_ms,
            grace_ms=config.disconnect_grace_ms,
            members_max=MEMBERS_MAX,
            group_members_max=GROUP_MEMBERS_MAX,
        )
        self.assigner = Assigner(
            self.state.assignments,
            self.recorder.record,
            members=self.members,
            catalog=self.catalog,
            fences=fences,
            clock=clock,
            broker_name=config.broker_name,
        )
        self.locks = QueueLocks(
            self.state.locks,
            self.recorder.record,
            catalog=self.catalog,
            clock=clock,
            fences=fences,
            lease_ms=config.queue_lock_ms,
            owner_of=self.assigner.owner,
        )
        self.fencing = Fencing(
            catalog=self.catalog,
            state=self.state,
            handles=self.handles,
            locks=self.locks,
            access=self.access,
            members=self.members,
            owner_of=self.assigner.owner,
        )
        self.membership = Membership(
            members=self.members,
            table=self.state.assignments,
            assigner=self.assigner,
            locks=self.locks,
            access=self.access,
            sessions=self.sessions,
            catalog=self.catalog,
            fences=fences,
            heartbeat_ms=config.member_timeout_ms // 3,
        )
        self.backlog = Backlog(
            state=self.state,
            queues=self.queues,
            catalog=self.catalog,
            locks=self.locks,
            access=self.access,
            members=self.members,
            times=self.times,
            clock=clock,
            owner_of=self.assigner.owner,
        )

    def publish_catalog(self, snapshot: CatalogSnapshot) -> None:
        """Obey a newer snapshot; the messages of a topic it no longer has are gone for readers.

        Queues are shared out again where their number or a group's strategy has changed.
        """
        if self.catalog.publish(snapshot):
            self._trim_deleted_topics()
            self.membership.catalog_changed()

    def check_pull(self, request: PullRequest) -> ConsumeQueue:
        """Return the queue of a pull.

        Raises UnknownTopic, UnknownQueue, NotPermitted, InvalidArgument or InvalidFilter.
        """
        check_amounts(request.messages_max, request.bytes_max, request.wait_ms)
        compile_filter(request.filter, request.filter_type)
        self.catalog.readable(request.topic, request.queue)
        return self.queues.queue(request.topic, request.queue)

    def pull(self, request: PullRequest, *, wait: bool = True) -> PullResult:
        """Read a queue. Raises ColdRead when `wait` is false and the disk would be waited for."""
        queue = self.check_pull(request)
        return self.fencing.pull(request, queue, lambda: fetch(self.log, queue, request, wait=wait))

    def is_pull_due(self, request: PullRequest, queue: ConsumeQueue) -> bool:
        """Say whether a parked pull has something to read, or may not go on waiting for it."""
        return queue.visible > request.queue_offset or not self.fencing.may_wait(request)

    def receive(self, request: ReceiveRequest, *, wait: bool = True) -> ReceiveResult:
        """Hand out messages. Raises ColdRead when `wait` is false and the disk is needed."""
        self.pop.check(request)
        self.sessions.see(request.group, request.client_id, request.topics)
        self.expire()
        return self.pop.receive(request, wait=wait)

    def expire(self) -> set[tuple[str, int]]:
        """Make due leases ready; return the queues that have messages to hand out again."""
        ready = self.state.leases.expire(self.clock.monotonic_ms())
        return {(entry.progress.topic, entry.progress.queue) for entry in ready}

    def show_synced(self) -> dict[tuple[str, int], int]:
        """Let readers see what is synced; return the queues that got longer, and from where on."""
        return self.queues.show(self.log.synced_offset)

    def rebalance(self, *, reason: str, group: str | None = None) -> list[Rebalance]:
        """Forget members and locks that are over, and share out queues again; see EngineControl."""
        self.locks.forget_expired()
        before = self.queues.queue(JOURNAL_TOPIC, 0).end - 1
        self.membership.rebalance(reason=reason, group=group)
        return self.state.history.rebalances(before)

    def history(self, after: int) -> GroupHistory:
        """Return lines of history behind a journal number that a power cut cannot take back."""
        return self.state.history.after(after, end=self.queues.queue(JOURNAL_TOPIC, 0).visible)

    def tags_since(self, topic: str, number: int, start: int) -> Set[int] | None:
        """Return the tag hashes of what a queue shows from `start` on; None where it would wait."""
        queue = self.queues.queue(topic, number)
        try:
            entries = queue.read(start, queue.visible - start, wait=False)
        except ColdRead:
            return None
        return set(np.unique(entries["tag_hash"]).tolist())

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
