"""Compaction of one store: which queues have kept messages, which are worth a round, who is told.

Knows catalog, queues and parts; neither threads nor when it is asked. What a round does is
`compactionround`'s. The log below a queue's `covered` is not needed for its messages any more.
"""

import logging
from collections.abc import Iterator
from functools import partial

from apps.engine.broker.catalog import Catalog
from apps.engine.broker.compactionround import Round, open_part
from apps.engine.broker.damage import Damage
from apps.engine.broker.owntopics import is_own
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.clock import Clock
from apps.engine.config import EngineConfig
from apps.engine.derived.compacted import layout, manifest
from apps.engine.derived.compacted.part import Part, PartDamaged
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.files.refusals import write_refusal
from apps.engine.log.commitlog import CommitLog
from apps.engine.retentiontypes import CompactionStatus
from apps.engine.types import Cleanup

_log = logging.getLogger(__name__)


class Compaction:
    """The compacted topics of one store."""

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        *,
        queues: QueueSet,
        catalog: Catalog,
        times: StoreTimes,
        damage: Damage,
        config: EngineConfig,
        clock: Clock,
        failpoints: Failpoints,
    ) -> None:
        """Bind to a store and let its queues read what is kept. Raises StoreDamaged."""
        self.rounds = self.failed_rounds = self.damaged = 0
        self._messages_before = self._messages_after = 0
        self._bytes_before = self._bytes_after = 0
        self._disk = disk
        self._log = log
        self._queues = queues
        self._catalog = catalog
        self._times = times
        self._config = config
        self._clock = clock
        self._failpoints = failpoints
        self._generations: dict[tuple[str, int], int] = {}
        damage.pass_over_kept = self._pass_over
        for place in list(manifest.places(disk)):
            self._attach(place)

    def _attach(self, place: manifest.PartPlace) -> None:
        key = (place.topic, place.queue)
        self._generations[key] = place.generation
        queue = self._queues.queue(*key)
        try:
            part = open_part(self._disk, place, store_id=self._log.store_id)
        except (StoreDamaged, FileNotFoundError) as error:
            # Its file stays as it is until a round puts it aside; the log has what it has.
            self.damaged += 1
            _log.error("compaction_damage", extra={"reason": str(error)})
            return
        for path in manifest.leftovers(self._disk, layout.directory(*key), place.generation):
            self._disk.remove(path)
        if part.stop > queue.end:
            part.close()
            raise StoreDamaged(
                f"{part.path} covers queue {place.topic}/{place.queue} up to {part.stop}, "
                f"the log only up to {queue.end}"
            )
        if queue.entries_from > part.stop:
            # Retention has hidden all of it, and more.
            part.close()
            return
        queue.kept = part
        queue.min_offset = min(queue.min_offset, part.begin)

    # --- what is to be done --------------------------------------------------------------------

    def compacted_queues(self) -> Iterator[ConsumeQueue]:
        """Iterate over the queues of compacted topics that ever held a message."""
        for spec in self._catalog.snapshot.topics.values():
            if spec.cleanup is Cleanup.COMPACT:
                for number in range(spec.queue_count):
                    queue = self._queues.find(spec.name, number)
                    if queue is not None and queue.end:
                        yield queue

    def due(self) -> list[ConsumeQueue]:
        """Return the queues that are worth a round now."""
        return [queue for queue in self.compacted_queues() if self._is_due(queue)]

    def _is_due(self, queue: ConsumeQueue) -> bool:
        part = queue.kept
        head = head_messages(queue)
        kept = 0 if part is None else part.message_count
        is_dirty = head >= self._config.compaction_new_share * (head + kept)
        if head >= self._config.compaction_messages_min and is_dirty:
            return True
        oldest_ms = -1 if part is None else part.shape.oldest_tombstone_ms
        # Twice the time, so that a trickle of tombstones is not a round each.
        late_ms = self._clock.wall_ms() - 2 * self._config.compaction_tombstone_ms
        return 0 <= oldest_ms < late_ms

    def uncovered(self, log_offset: int, *, wait: bool) -> list[ConsumeQueue]:
        """Return the queues whose messages below a log offset only the log has. Raises ColdRead."""
        found = []
        for queue in self.compacted_queues():
            first = self._first_uncovered(queue, wait=wait)
            if first is not None and first < log_offset and queue.visible > queue.covered:
                found.append(queue)
        return found

    def needed_from(self, wait: bool) -> int | None:
        """Return the first place of the log that no kept message stands for; a holder.

        All of the log where it is not known which topics are compacted. Raises ColdRead.
        """
        if not self._catalog.snapshot.version:
            has_messages = any(queue.end and not is_own(queue.topic) for queue in self._queues)
            return self._log.log_start if has_messages else None
        needed = (self._first_uncovered(queue, wait=wait) for queue in self.compacted_queues())
        return min((offset for offset in needed if offset is not None), default=None)

    def _first_uncovered(self, queue: ConsumeQueue, *, wait: bool) -> int | None:
        first = max(queue.covered, queue.min_offset, queue.entries_from)
        if first >= queue.end:
            return None
        return int(queue.read(first, 1, wait=wait)["log_offset"][0])

    def begin_round(self, queue: ConsumeQueue) -> Round:
        """Return a round for a queue, over what readers may see now."""
        return Round(
            self._disk,
            self._log,
            queue,
            generation=self._generations.get((queue.topic, queue.queue), 0) + 1,
            config=self._config,
            clock=self._clock,
            failpoints=self._failpoints,
        )

    # --- the end of a round --------------------------------------------------------------------

    def switch(self, done: Round) -> Part | None:
        """Let readers read the new file, and return the old one: `retire` it when none reads it."""
        new, queue = done.new, done.queue
        assert new is not None
        old, queue.kept = queue.kept, new
        self._generations[queue.topic, queue.queue] = new.shape.generation
        self._times.forget(queue)
        self.rounds += 1
        self._messages_before += done.messages_before
        self._messages_after += new.message_count
        self._bytes_before += done.bytes_before
        self._bytes_after += new.size_bytes
        _log.info(
            "topic_compacted",
            extra={
                "topic": queue.topic,
                "queue": queue.queue,
                "covered": new.stop,
                "messages_before": done.messages_before,
                "messages_after": new.message_count,
            },
        )
        return old

    def retire(self, done: Round, old: Part | None) -> None:
        """Close the old file and remove it, or put it aside where it is damaged; for a thread.

        Raises WriteFailed or SyncFailed.
        """
        if old is not None:
            old.close()
        try:
            self._failpoints.hit("compaction.before_remove")
        except OSError as error:
            raise write_refusal(error, "cannot remove a file of kept messages") from error
        queue = done.queue
        assert done.new is not None
        is_damaged = done.is_damaged or old is None or not old.is_whole
        directory = layout.directory(queue.topic, queue.queue)
        for path in manifest.leftovers(self._disk, directory, done.new.shape.generation):
            if is_damaged and not path.endswith(".new"):
                self._disk.rename(path, f"{path}{manifest.ASIDE}")
            else:
                self._disk.remove(path)
        self._disk.sync_directory(directory)

    def hidden(self) -> list[ConsumeQueue]:
        """Return the queues of which no kept message can be read: their topics were deleted."""
        return [
            queue
            for queue in self._queues
            if queue.kept is not None and queue.min_offset >= queue.kept.stop
        ]

    def drop(self, queue: ConsumeQueue) -> Part | None:
        """Let a queue have no kept messages any more; `forget` the answer when none reads it."""
        old, queue.kept = queue.kept, None
        queue.begin_at(queue.min_offset)
        return old

    def forget(self, old: Part) -> None:
        """Remove what was dropped; for a thread. Raises WriteFailed or SyncFailed."""
        old.close()
        manifest.remove_place(self._disk, old.topic, old.queue, failpoints=self._failpoints)

    def close(self) -> None:
        """Close the files."""
        for queue in self._queues:
            if queue.kept is not None:
                queue.kept.close()

    def _pass_over(self, error: PartDamaged) -> bool:
        part = self._queues.queue(error.topic, error.queue).kept
        if part is None or not part.pass_over(error):
            return False
        self.damaged += max(1, len(error.offsets))
        _log.error("compaction_damage", extra={"reason": str(error)})
        return True

    # --- for people ----------------------------------------------------------------------------

    def status(self) -> CompactionStatus:
        """Return one reading."""
        return CompactionStatus(
            rounds=self.rounds,
            failed_rounds=self.failed_rounds,
            messages_before=self._messages_before,
            messages_after=self._messages_after,
            bytes_before=self._bytes_before,
            bytes_after=self._bytes_after,
            damaged=self.damaged,
        )


def head_messages(queue: ConsumeQueue) -> int:
    """Return how many messages no round has taken yet."""
    return max(0, queue.visible - max(queue.covered, queue.min_offset))


def run_round(compaction: Compaction, damage: Damage, queue: ConsumeQueue) -> Round:
    """Run a round on the spot, waiting for the disk; nobody else may read meanwhile."""
    done = compaction.begin_round(queue)
    try:
        for step in done.steps():
            damage.guarded(partial(step.work, True))
    except BaseException:
        done.abandon()
        raise
    compaction.retire(done, compaction.switch(done))
    return done
