"""A whole broker on one store: every verb answered from what is there now.

Knows all of the engine below, composed next door; waits for nothing and nobody, which belongs to
`apps.engine.local`.
Single-threaded: all calls come from one thread, except those said to be for a thread.
"""

import gc
from collections.abc import Callable, Collection, Iterator, Set
from contextlib import contextmanager

import numpy as np

from apps.engine.broker.composed import Composed
from apps.engine.broker.fetch import check_amounts, fetch
from apps.engine.broker.journal import Trim
from apps.engine.broker.names import check_group_name
from apps.engine.broker.owntopics import is_own
from apps.engine.broker.ranges import Ranges
from apps.engine.broker.replay import store_state
from apps.engine.broker.search import Search
from apps.engine.caretypes import WhatIf, WhatIfRequest
from apps.engine.clock import Clock
from apps.engine.codec.layout import JOURNAL_TOPIC
from apps.engine.codec.litenames import is_lite
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.derived.timer.tuning import TimerTuning
from apps.engine.errors import QueueDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk, used_share
from apps.engine.filters.subscription import compile_filter
from apps.engine.grouptypes import GroupHistory, Rebalance
from apps.engine.litetypes import LiteSync, LiteSynced, LiteTotal
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.opening import Beside, at_once
from apps.engine.searchtypes import SearchRequest
from apps.engine.types import (
    CatalogSnapshot,
    PullRequest,
    PullResult,
    QueueRange,
    ReceiveRequest,
    ReceiveResult,
    TopicTotal,
    TopicType,
)


class Broker(Composed):
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
        super().__init__(
            disk, log, config=config, clock=clock, failpoints=failpoints, tuning=tuning
        )
        self._ranges = Ranges(self.queues)
        # A crash may have come between a topic's deletion and its trim.
        self._trim_deleted_topics()

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
            self.literead.group_changed(changed)
            self.litelags.groups_changed(changed)

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
        return self.damage.guarded(
            lambda: self.fencing.pull(
                request,
                queue,
                lambda: fetch(self.log, queue, request, sent_back=sent_back, wait=wait),
            )
        )

    def is_pull_due(self, request: PullRequest) -> bool:
        """Say whether a parked pull has something to read, or may not go on waiting for it."""
        queue = self.queues.queue(request.topic, request.queue)
        if not self.fencing.may_wait(request):
            return True
        return queue.visible > request.queue_offset and not self.fencing.is_suspended(request)

    def search(self, request: SearchRequest) -> Search:
        """Begin a search. Raises UnknownTopic, UnknownQueue, NotPermitted or InvalidArgument."""
        return Search(
            request,
            log=self.log,
            queues=self.queues,
            index=self.index,
            catalog=self.catalog,
            times=self.times,
        )

    def receive(self, request: ReceiveRequest, *, wait: bool = True) -> ReceiveResult:
        """Hand out messages. Raises ColdRead when `wait` is false and the disk is needed."""
        self.pop.check(request)
        if request.is_lite:
            self.literead.check(request)
        self.sessions.see(
            request.group,
            request.client_id,
            request.topics,
            software=request.software,
            address=request.address,
        )
        self.expire()
        if request.is_lite:
            return self.damage.guarded(lambda: self.literead.receive(request, wait=wait))
        return self.damage.guarded(lambda: self.pop.receive(request, wait=wait))

    def expire(self) -> set[tuple[str, int]]:
        """Make due leases ready; return the queues that have messages to hand out again.

        What has failed for the last time is none of it: that is for `burying`.
        """
        ready = self.state.leases.expire(self.clock.monotonic_ms())
        for entry in ready:
            if is_lite(entry.progress.topic):
                self.litelags.moved(entry.progress)
        return {
            (entry.progress.topic, entry.progress.queue)
            for entry in ready
            if not self.burying.takes(entry)
        }

    def show_synced(self) -> dict[tuple[str, int], int]:
        """Let readers see what is synced; return the queues that got longer, and from where on."""
        grown = self.queues.show(self.log.synced_offset)
        for (topic, _), before in grown.items():
            if is_lite(topic):
                self.litelags.shown(topic, before)
                self.literead.shown(topic)
        return grown

    def sync_lite(self, request: LiteSync, *, wait: bool = True) -> LiteSynced:
        """Change a client's set of lite topics; see EngineAPI.

        Raises ColdRead, with nothing changed, when `wait` is false and the disk is needed.
        """
        return self.damage.guarded(lambda: self.literead.sync(request, wait=wait))

    def expire_lite(self, *, wait: bool = True) -> bool:
        """Let lite topics be gone that had no message for too long, some of them at a time.

        Their names are free once the log's front has passed them, and clients that are silent are
        forgotten. Returns whether there is more to do now. Raises StoreFull, and ColdRead when
        `wait` is false and the disk is needed.
        """
        return self.liteends.step(wait=wait)

    def rebalance(self, *, reason: str, group: str | None = None) -> list[Rebalance]:
        """Forget members and locks that are over, and share out queues again; see EngineControl."""
        self.locks.forget_expired()
        before = self.queues.queue(JOURNAL_TOPIC, 0).end - 1
        self.membership.rebalance(reason=reason, group=group)
        return self.state.history.rebalances(before)

    def what_if(self, request: WhatIfRequest) -> WhatIf:
        """Return how a group's queues would be shared out; see EngineControl."""
        check_group_name(request.group)
        known = self.catalog.snapshot.topics
        topics = {
            progress.topic
            for progress in self.state.progress.values()
            if progress.group == request.group and progress.topic in known
        }
        return self.assigner.what_if(request, topics)

    def history(self, after: int) -> GroupHistory:
        """Return lines of history behind a journal number that a power cut cannot take back."""
        return self.state.history.after(after, end=self.queues.queue(JOURNAL_TOPIC, 0).visible)

    def tags_since(self, topic: str, number: int, start: int) -> Set[int] | None:
        """Return the tag hashes of what a queue shows from `start` on; None where it cannot."""
        queue = self.queues.queue(topic, number)
        try:
            entries = queue.read(start, queue.visible - start, wait=False)
        except (ColdRead, QueueDamaged):
            return None
        return set(np.unique(entries["tag_hash"]).tolist())

    def queue_ranges(self, topic: str) -> list[QueueRange]:
        """Return what each queue of a topic holds. Raises UnknownTopic."""
        spec = self.catalog.topic(topic)
        return self._ranges.of_topic(topic, spec.queue_count)

    def topic_ranges(self, topics: Collection[str] | None = None) -> dict[str, list[QueueRange]]:
        """Return what the queues of several topics hold, or of all; unknown ones are left out."""
        known = self.catalog.snapshot.topics
        names = known if topics is None else [name for name in topics if name in known]
        return {name: self.queue_ranges(name) for name in names}

    def topic_totals(self) -> dict[str, TopicTotal]:
        """Return what the queues and lite topics of each topic have in sum; see EngineControl."""
        topics = self.catalog.snapshot.topics
        return {
            name: self._ranges.total(name, spec.queue_count)
            if spec.type is not TopicType.LITE
            else self.litelags.counts.of_topic(name)
            for name, spec in topics.items()
        }

    def lite_totals(self) -> dict[str, LiteTotal]:
        """Return what the lite topics of each parent have in sum, by parent."""
        return {
            name: self.litelags.counts.total(name)
            for name, spec in self.catalog.snapshot.topics.items()
            if spec.type is TopicType.LITE
        }

    def own_ranges(self, prefix: str) -> dict[str, list[QueueRange]]:
        """Return what the queues of the engine's own topics hold; see EngineControl."""
        found = {
            topic: [self._ranges.of(queue) for queue in self.queues.of_topic(topic) if queue.end]
            for topic in sorted(self.queues.topics_like(prefix))
            if is_own(topic)
        }
        return {topic: ranges for topic, ranges in found.items() if ranges}

    def _trim_deleted_topics(self) -> None:
        # A topic made again under the same name goes on counting, so that an offset names one
        # message for ever; what was sent before the deletion stays hidden.
        if not self.catalog.snapshot.version:
            return  # Nothing was published yet, or it was lost: that is no deletion.
        kept = self.catalog.snapshot.topics
        self.liteends.hide_deleted()
        for queue in self.queues:
            is_gone = queue.topic not in kept and not is_own(queue.topic)
            if is_gone and queue.end > queue.min_offset:
                trim = Trim(topic=queue.topic, queue=queue.queue, min_offset=queue.end)
                self.recorder.record(trim)
                queue.begin_at(queue.end)

    def free_bytes(self) -> int:
        """Return how many bytes may still be written to the disk."""
        return self._disk.free_bytes()

    def disk_bytes(self) -> int:
        """Return the size of the disk."""
        return self._disk.total_bytes()

    def disk_used(self) -> float:
        """Return the share of the disk that is used, 0 to 1, by whoever."""
        return used_share(self._disk)

    def begin_checkpoint(self) -> tuple[int, Callable[[], None]]:
        """Take a picture of derived and consumer state.

        Returns the log offset that must be synced first, and what to run in a thread then.
        """
        with _uncollected():
            return self._begin_checkpoint()

    def _begin_checkpoint(self) -> tuple[int, Callable[[], None]]:
        queues = self.queues.begin_checkpoint()
        write_index = self.index.begin_checkpoint()
        write_delays = self.delays.begin_checkpoint()
        journal_offset = self.queues.queue(JOURNAL_TOPIC, 0).end
        content: dict[str, object] = {
            "journal_offset": journal_offset,
            **self.state.dump(),
            "lites": self.lites.dump(),
        }

        def write() -> None:
            self.queues.finish_checkpoint(queues)()
            store_state(self._disk, content, failpoints=self._failpoints)
            self.holders.journal_offset = journal_offset
            write_delays()
            write_index()

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
        self.index.close()
        self.compaction.close()
        self.delays.waiting.close()
        self.log.close(clean=True)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Start no collection of garbage inside the block: it makes many rows, and no garbage.

    Each of those collections would look at all objects of a large store, and take most of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def open_broker(
    disk: Disk,
    *,
    config: EngineConfig,
    clock: Clock,
    failpoints: Failpoints,
    tuning: TimerTuning | None = None,
    beside: Beside = at_once,
) -> Broker:
    """Open the log, recover it, and build a broker on it; `tuning` is for tests.

    The log's tail is written again by `beside`, while queues and index are made of it. The caller
    holds the store's lock. Raises StoreDamaged, ForeignSegment or UnknownFormat.
    """
    log = CommitLog.open(disk, config=config, clock=clock, failpoints=failpoints, beside=beside)
    return Broker(disk, log, config=config, clock=clock, failpoints=failpoints, tuning=tuning)
