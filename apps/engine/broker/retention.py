"""Delete the oldest segments of a store: what the rules want, less what somebody needs.

Knows the policy, holders, topics and queues; neither threads nor when it is asked. The order makes
a crash between any two steps harmless: messages are hidden from readers, then the log's new start
is on the disk, then nobody reads below any more, then segments are unlinked.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from apps.engine.broker.careevents import Retired
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.holders import Holders, NeededFrom, Place
from apps.engine.broker.litetopics import LiteTopics
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.state import ConsumerState
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.clock import Clock
from apps.engine.codec.litenames import is_lite
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import StoreFull
from apps.engine.files.backend import Disk, used_share
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.retained import Retained, load_retained
from apps.engine.log.retention import LogExtent, RetentionPolicy, Rule, Wanted, wanted
from apps.engine.log.segmentleases import SegmentLease, SegmentLeases
from apps.engine.retentiontypes import RetentionBlock, RetentionStatus
from apps.engine.types import Cleanup, TopicType

_log = logging.getLogger(__name__)

Needs = dict[str, int]
"""The lowest log offset that each holder needs, of those that need any."""


def _heard_by_nobody(_topic: str, _count: int) -> None:
    """Tell nobody."""


class Retention:
    """What of one store goes, and the steps of its going. Steps are in the order of the methods."""

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        *,
        queues: QueueSet,
        state: ConsumerState,
        recorder: Recorder,
        catalog: Catalog,
        times: StoreTimes,
        holders: Holders,
        lites: LiteTopics,
        config: EngineConfig,
        clock: Clock,
    ) -> None:
        """Bind to a store, and hide what an earlier owner had given up."""
        self.leases = SegmentLeases(disk, clock)
        self.followers: list[Callable[[int], object]] = []
        self.deleted_segments = 0
        self.begins_listed: Set[str] = {topic for topic, _, _ in load_retained(disk).queues}
        """The topics of which the file of the log's front says where queues begin."""
        self.on_hidden: Callable[[str, int], None] = _heard_by_nobody
        """Told of each lite topic that begins elsewhere for readers, and how many they lose."""
        self.blocks: tuple[RetentionBlock, ...] = ()
        self._disk = disk
        self._log = log
        self._queues = queues
        self._state = state
        self._recorder = recorder
        self._catalog = catalog
        self._times = times
        self._holders = holders
        self._lites = lites
        self._clock = clock
        self._store_ms = config.retention_ms
        self._policy = RetentionPolicy(
            age_ms=config.retention_ms,
            bytes_max=config.retention_bytes,
            hours=config.retention_hours,
            expire_share=config.retention_disk_share,
            force_share=config.retention_force_share,
        )
        self._began_ms = clock.wall_ms()
        self._began_at_ms = clock.monotonic_ms()
        # A crash may have come between the start's file and what it means for groups. Whatever
        # they hold of it since they were brought back was not in flight when it was given up.
        self._retire({(q.topic, q.queue): q.min_offset for q in queues})

    def now_ms(self) -> int:
        """Return the wall time, but no later than time itself has brought it since the start.

        A clock that is set ahead must not make a whole log old at once.
        """
        passed_ms = self._clock.monotonic_ms() - self._began_at_ms
        return min(self._clock.wall_ms(), self._began_ms + passed_ms)

    # --- topics with a time of their own ------------------------------------------------------

    def timed_queues(self) -> list[tuple[ConsumeQueue, int]]:
        """Return queues of topics with a retention of their own, and the time before which it is.

        Only queues that hold something are among them.
        """
        now_ms = self.now_ms()
        return [
            (queue, now_ms - spec.retention_ms)
            for spec in self._catalog.snapshot.topics.values()
            if spec.retention_ms is not None and spec.cleanup is not Cleanup.COMPACT
            for number in range(spec.queue_count)
            if (queue := self._queues.find(spec.name, number)) is not None
            and queue.min_offset < queue.visible
        ] + [
            (queue, now_ms - spec.retention_ms)
            for spec in self._catalog.snapshot.topics.values()
            if spec.retention_ms is not None and spec.type is TopicType.LITE
            for queue in self._lite_queues(spec.name)
        ]

    def _lite_queues(self, parent: str) -> list[ConsumeQueue]:
        found = (self._queues.find(topic, 0) for topic in self._lites.of_parent(parent))
        return [q for q in found if q is not None and q.min_offset < q.visible]

    def first_kept(self, queue: ConsumeQueue, before_ms: int, *, wait: bool) -> int:
        """Return the first message of a queue stored at a time or later. Raises ColdRead."""
        if self._times.of(queue, queue.min_offset, wait=wait) >= before_ms:
            return queue.min_offset
        return self._times.first_since(queue, before_ms, wait=wait)

    def longer_kept(self) -> dict[str, NeededFrom]:
        """Return who keeps segments longer than their age: topics that are to be kept longer."""
        found: dict[str, NeededFrom] = {}
        for queue, before_ms in self.timed_queues():
            spec = self._catalog.topic(queue.topic)
            if spec.retention_ms is not None and spec.retention_ms > self._store_ms:
                found[f"topic {queue.topic}/{queue.queue}"] = self._kept_from(queue, before_ms)
        return found

    def _kept_from(self, queue: ConsumeQueue, before_ms: int) -> NeededFrom:
        def needed_from(wait: bool) -> int | None:
            first = self.first_kept(queue, before_ms, wait=wait)
            if first >= queue.end:
                return None
            return int(queue.read(first, 1, wait=wait)["log_offset"][0])

        return needed_from

    # --- what is wanted, and what is needed ----------------------------------------------------

    def wanted(self, disk_used: float, *, at_any_hour: bool) -> Wanted | None:
        """Return what the rules want deleted; for a thread, as it may wait for the disk."""
        front, end = self._log.front, self._log.written_offset
        extent = LogExtent(
            bases=front.bases(end), newest=front.base(end), end=end, first_ms=front.first_ms
        )
        front.first_ms(front.log_start)
        return wanted(
            self._policy,
            extent,
            now_ms=self.now_ms(),
            disk_used=disk_used,
            at_any_hour=at_any_hour,
        )

    def checkpoint_holders(self) -> dict[str, NeededFrom]:
        """Return who needs less once a checkpoint was taken."""
        return self._holders.checkpoints()

    def holders(self, rule: Rule) -> dict[str, NeededFrom]:
        """Return who else may need the log; a topic's longer time counts against age alone."""
        found = self._holders.others()
        if rule is Rule.AGE:
            found.update(self.longer_kept())
        return found

    def reader_needs(self, leases: Iterable[SegmentLease], disk_used: float) -> Needs:
        """Return what readers of other processes need, but for those that yield to a full disk."""
        is_full = disk_used >= self._policy.force_share
        return {
            f"reader {lease.owner}": lease.log_offset
            for lease in leases
            if not (lease.yields and is_full)
        }

    def allowed(self, want: Wanted, needs: Mapping[str, int]) -> int:
        """Return up to where may be deleted, and note who needs what is wanted; 0 for nothing.

        Each new holder is logged once.
        """
        start = self._log.log_start
        allowed = min([want.log_start, *map(self._log.front.base, needs.values())])
        known = {block.holder: block for block in self.blocks}
        self.blocks = tuple(
            RetentionBlock(
                holder=holder,
                log_offset=offset,
                size_bytes=want.log_start - max(start, self._log.front.base(offset)),
                since_ms=known[holder].since_ms if holder in known else self._clock.wall_ms(),
            )
            for holder, offset in sorted(needs.items(), key=lambda item: item[1])
            if self._log.front.base(offset) < want.log_start
        )
        for block in self.blocks:
            if block.holder not in known:
                extra = {"holder": block.holder, "log_offset": block.log_offset}
                _log.warning("retention_blocked", extra=extra | {"bytes": block.size_bytes})
        return allowed if allowed > start else 0

    def nothing_wanted(self) -> None:
        """Note that nobody is in the way."""
        self.blocks = ()

    # --- steps ---------------------------------------------------------------------------------

    def hide(self, begins: Mapping[Place, int]) -> bool:
        """Let queues begin at offsets from here on, for readers and groups.

        False where something below is in flight meanwhile: nothing has changed then. Where the log
        takes no event it is done all the same, and written down at the next start.
        """
        begins = self._hidden(begins)
        held = self._holders.held()
        if any(held.get(place, begin) < begin for place, begin in begins.items()):
            return False
        self._retire(begins)
        return True

    def _hidden(self, begins: Mapping[Place, int]) -> dict[Place, int]:
        """Return what readers lose by that; where messages are kept beside the log, nothing."""
        found = {}
        for place, begin in begins.items():
            queue = self._queues.queue(*place)
            if begin <= queue.covered:
                queue.entries_from = max(queue.entries_from, begin)
            else:
                found[place] = begin
        return found

    def _retire(self, begins: Mapping[Place, int]) -> None:
        events = [
            Retired(topic=topic, queue=number, min_offset=begin)
            for (topic, number), begin in begins.items()
            if begin > self._state.floors.get((topic, number), 0)
        ]
        if events:
            try:
                self._recorder.commit(events)
            except StoreFull:
                # To write it down needs room, and this is what makes room.
                for event in events:
                    self._state.apply(event, number=-1, at_ms=self._clock.wall_ms())
        for place, begin in begins.items():
            queue = self._queues.queue(*place)
            held = queue.held
            queue.begin_at(begin)
            if is_lite(place[0]):
                self.on_hidden(place[0], held - queue.held)

    def store_start(self, log_start: int, begins: Mapping[Place, int]) -> None:
        """Write down the log's new start; for a thread."""
        rows = tuple((topic, number, begin) for (topic, number), begin in begins.items() if begin)
        self._log.front.store_start(Retained(log_start=log_start, queues=rows))
        self.begins_listed = {topic for topic, _, _ in rows}

    def sweep(self) -> int:
        """Unlink what lies below the start and no other process reads; for a thread.

        Returns how many segments that were.
        """
        count = self._log.front.sweep(
            lambda: min(
                (lease.log_offset for lease in self.leases.in_force() if not lease.yields),
                default=None,
            )
        )
        self.deleted_segments += count
        return count

    def follow(self) -> None:
        """Tell whoever has something that stands on deleted bytes."""
        for follower in self.followers:
            follower(self._log.log_start)

    # --- for people ----------------------------------------------------------------------------

    def status(self) -> RetentionStatus:
        """Return one reading; waits for nothing."""
        log = self._log
        return RetentionStatus(
            log_bytes=log.written_offset - log.log_start,
            oldest_ms=log.front.known_first_ms(log.log_start),
            disk_used=used_share(self._disk),
            deleted_segments=self.deleted_segments,
            deleted_bytes=self.deleted_segments * log.front.segment_bytes,
            lost_messages=sum(self._state.lost.values()),
            blocked_by=self.blocks,
        )

    def queue_places(self) -> Sequence[ConsumeQueue]:
        """Return the queues whose begin goes with the log's start: all that hold or held any."""
        return [queue for queue in self._queues if queue.end]
