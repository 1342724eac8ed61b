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
from apps.engine.broker.burying import Burying
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.deadletters import DeadLetters
from apps.engine.broker.delaydelivery import DelayDelivery
from apps.engine.broker.delaylist import DelayList
from apps.engine.broker.delays import Delays
from apps.engine.broker.fences import Fences
from apps.engine.broker.fencing import Fencing
from apps.engine.broker.fetch import check_amounts, fetch
from apps.engine.broker.handles import Handles
from apps.engine.broker.intake import Intake
from apps.engine.broker.journal import Trim
from apps.engine.broker.levellist import LevelList
from apps.engine.broker.levels import DelayLevels
from apps.engine.broker.members import Members
from apps.engine.broker.membership import Membership
from apps.engine.broker.offsets import Offsets
from apps.engine.broker.owntopics import is_own
from apps.engine.broker.pop import Pop
from apps.engine.broker.produce import Appender
from apps.engine.broker.queuelocks import QueueLocks
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.repeats import Repeats
from apps.engine.broker.replay import CHECKPOINT, replay
from apps.engine.broker.schedule import Schedule
from apps.engine.broker.sendback import SendBack
from apps.engine.broker.sessions import Sessions
from apps.engine.broker.state import ConsumerState
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.broker.transactionchecks import TransactionChecks
from apps.engine.broker.transactions import Transactions
from apps.engine.clock import Clock
from apps.engine.codec.layout import JOURNAL_TOPIC
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.derived.dispatch import dispatch
from apps.engine.derived.queueset import QueueSet
from apps.engine.derived.timer.tuning import TimerTuning
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk
from apps.engine.filters.subscription import compile_filter
from apps.engine.grouptypes import GroupHistory, Rebalance
from apps.engine.limits import GROUP_MEMBERS_MAX, MEMBERS_MAX, MIB, READERS_MAX, SESSIONS_MAX
from apps.engine.log.commitlog import CommitLog
from apps.engine.types import (
    CatalogSnapshot,
    PullRequest,
    PullResult,
    QueueRange,
    ReceiveRequest,
    ReceiveResult,
)

# Messages that are written again in one frame hold everybody up for as long as they are copied.
_COPIES_BYTES_MAX = 4 * MIB


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
        tuning: TimerTuning | None = None,
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
        self.levels = DelayLevels(
            config.delay_levels_ms, clock, own_delays=lambda batch: self.delays.route(batch)
        )
        self.intake = Intake(delay=self.levels.route)
        self.recorder = Recorder(self.appender, self.state, clock=clock, failpoints=failpoints)
        self.handles = Handles(log.store_id)
        self.settler = Ack(
            self.state,
            self.recorder,
            self.handles,
            catalog=self.catalog,
            levels_ms=config.delay_levels_ms,
            clock=clock,
            epoch=log.epoch,
        )
        self.sessions = Sessions(clock, sessions_max=SESSIONS_MAX)
        self.times = StoreTimes(log)
        self.access = AccessLocks(clock, progress=self.state.progress, readers_max=READERS_MAX)
        self.offsets = Offsets(
            self.state, self.recorder, self.queues, self.catalog, access=self.access
        )
        self.begin = Begin(self.state, self.recorder, self.queues, self.catalog, self.times)
        self._compose_groups(config)
        self._compose_delays(config, tuning, failpoints)
        self._compose_failures(config)
        self._compose_transactions(config)
        self.pop = Pop(
            log=log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            handles=self.handles,
            locks=self.locks,
            burying=self.burying,
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

    def _compose_transactions(self, config: EngineConfig) -> None:
        """Compose what producers send once and no more, and what they have yet to decide."""
        state, clock = self.state, self.clock
        self.repeats = Repeats(
            state.repeats, self.recorder, self.intake, self.queues, self.log, clock=clock
        )
        self.transactions = Transactions(
            state.transactions,
            self.recorder,
            self.appender,
            self.repeats,
            self.queues,
            self.catalog,
            self.log,
            config=config,
            clock=clock,
        )
        self.checks = TransactionChecks(
            self.transactions, state.transactions, self.recorder, config=config, clock=clock
        )

    def _compose_failures(self, config: EngineConfig) -> None:
        """Compose delay levels, retries and dead letters."""
        # A frame of copies must fit a segment, also where one message overshoots.
        bytes_max = min(_COPIES_BYTES_MAX, config.batch_bytes_max // 2)
        self.burying = Burying(
            log=self.log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            bytes_max=bytes_max,
        )
        self.schedule = Schedule(
            self.levels,
            log=self.log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            clock=self.clock,
            bytes_max=bytes_max,
        )
        self.levellist = LevelList(self.schedule, self.log, self.queues)
        self.sendback = SendBack(
            log=self.log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            fencing=self.fencing,
            levels=self.levels,
            parcel=self.delays.parcel,
            clock=self.clock,
            bytes_max=bytes_max,
            delay_ms_max=config.delay_ms_max,
        )
        self.deadletters = DeadLetters(
            log=self.log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            clock=self.clock,
            bytes_max=bytes_max,
        )

    def _compose_delays(
        self, config: EngineConfig, tuning: TimerTuning | None, failpoints: Failpoints
    ) -> None:
        """Compose what waits for a moment of its own, and bring it into memory."""
        self.delays = Delays(
            self._disk,
            self.log,
            self.queues,
            self.state,
            self.recorder,
            config=config,
            clock=self.clock,
            failpoints=failpoints,
            tuning=tuning,
        )
        self.delaydelivery = DelayDelivery(
            self.delays, self.catalog, self.recorder, bytes_max=config.batch_bytes_max // 2
        )
        self.delaylist = DelayList(self.delays, self.delaydelivery)

    def publish_catalog(self, snapshot: CatalogSnapshot) -> None:
        """Obey a newer snapshot; the messages of a topic it no longer has are gone for readers.

        Queues are shared out again where their number or a group's strategy has changed.
        """
        before = self.catalog.snapshot.groups
        if self.catalog.publish(snapshot):
            changed = {
                name
                for name in before.keys() | snapshot.groups.keys()
                if before.get(name) != snapshot.groups.get(name)
            }
            self._trim_deleted_topics()
            self.membership.catalog_changed()
            self.burying.look(changed)

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
        sent_back = self.state.failures.sent_back(request.group, request.topic, request.queue)
        return self.fencing.pull(
            request,
            queue,
            lambda: fetch(self.log, queue, request, sent_back=sent_back, wait=wait),
        )

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
        """Make due leases ready; return the queues that have messages to hand out again.

        What has failed for the last time is none of it: that is for `burying`.
        """
        ready = self.state.leases.expire(self.clock.monotonic_ms())
        return {
            (entry.progress.topic, entry.progress.queue)
            for entry in ready
            if not self.burying.takes(entry)
        }

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
        return [_range_of(self.queues.queue(topic, n)) for n in range(spec.queue_count)]

    def topic_ranges(self, topics: Collection[str] | None = None) -> dict[str, list[QueueRange]]:
        """Return what the queues of several topics hold, or of all; unknown ones are left out."""
        known = self.catalog.snapshot.topics
        names = known if topics is None else [name for name in topics if name in known]
        return {name: self.queue_ranges(name) for name in names}

    def own_ranges(self, prefix: str) -> dict[str, list[QueueRange]]:
        """Return what the queues of the engine's own topics hold; see EngineControl."""
        found: dict[str, list[QueueRange]] = {}
        for queue in self.queues:
            if queue.topic.startswith(prefix) and is_own(queue.topic) and queue.end:
                found.setdefault(queue.topic, []).append(_range_of(queue))
        return {topic: sorted(found[topic], key=lambda one: one.queue) for topic in sorted(found)}

    def _trim_deleted_topics(self) -> None:
        # A topic made again under the same name goes on counting, so that an offset names one
        # message for ever; what was sent before the deletion stays hidden.
        kept = self.catalog.snapshot.topics
        for queue in self.queues:
            is_gone = queue.topic not in kept and not is_own(queue.topic)
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
        write_delays = self.delays.begin_checkpoint()
        content: dict[str, object] = {
            "journal_offset": self.queues.queue(JOURNAL_TOPIC, 0).end,
            **self.state.dump(),
        }

        def write() -> None:
            self.queues.finish_checkpoint(queues)()
            atomic.replace(self._disk, CHECKPOINT, content, failpoints=self._failpoints)
            write_delays()

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
        self.delays.waiting.close()
        self.log.close(clean=True)


def _range_of(queue: ConsumeQueue) -> QueueRange:
    return QueueRange(
        topic=queue.topic,
        queue=queue.queue,
        min_offset=min(queue.min_offset, queue.visible),
        max_offset=queue.visible,
    )


def open_broker(
    disk: Disk,
    *,
    config: EngineConfig,
    clock: Clock,
    failpoints: Failpoints,
    tuning: TimerTuning | None = None,
) -> Broker:
    """Open the log, recover it, and build a broker on it; `tuning` is for tests.

    The caller holds the store's lock. Raises StoreDamaged, ForeignSegment or UnknownFormat.
    """
    log = CommitLog.open(disk, config=config, clock=clock, failpoints=failpoints)
    return Broker(disk, log, config=config, clock=clock, failpoints=failpoints, tuning=tuning)
