"""Control verbs: what there is and how far it got, answered at once. Knows the broker's answers."""

from collections.abc import Collection

from apps.engine.grouptypes import (
    GroupHistory,
    LockRefused,
    LockTransition,
    MemberState,
    QueueBacklog,
    QueueLockState,
    QueuePlace,
    Rebalance,
)
from apps.engine.local.host import Host
from apps.engine.types import (
    CatalogSnapshot,
    ClientSeen,
    EngineStatus,
    GroupProgress,
    QueueRange,
    TopicTotal,
)


class ControlVerbs:
    """EngineControl."""

    _host: Host

    @property
    def catalog(self) -> CatalogSnapshot:
        """Return the snapshot the engine obeys."""
        return self._host.broker.catalog.snapshot

    def publish_catalog(self, snapshot: CatalogSnapshot) -> None:
        """Obey `snapshot` from here on and keep it on disk; ignore one that is not newer."""
        self._host.check_serving()
        before = self._host.broker.catalog.snapshot.groups
        try:
            with self._host.writing():
                self._host.broker.publish_catalog(snapshot)
        finally:
            # Whoever waits for a group may be forbidden to now, or may demand a lock.
            groups = self._host.broker.catalog.snapshot.groups
            changed = {
                name
                for name in before.keys() | groups.keys()
                if before.get(name) != groups.get(name)
            }
            self._host.holds.wake((name,) for name in changed)
            self._host.arm_timers()

    def queue_ranges(self, topic: str) -> list[QueueRange]:
        """Return what each queue of the topic holds. Raises UnknownTopic."""
        return self._host.broker.queue_ranges(topic)

    def topic_ranges(self, topics: Collection[str] | None = None) -> dict[str, list[QueueRange]]:
        """Return what the queues of several topics hold; see EngineControl."""
        return self._host.broker.topic_ranges(topics)

    def topic_totals(self) -> dict[str, TopicTotal]:
        """Return what the queues of each topic have in sum; see EngineControl."""
        return self._host.broker.topic_totals()

    def group_progress(self, group: str | None = None) -> list[GroupProgress]:
        """Return progress per group and queue that has any; of one group, or of all."""
        return self._host.broker.offsets.progress(group)

    def clients(self, group: str | None = None) -> list[ClientSeen]:
        """Return the clients of one group or all; see EngineControl."""
        return self._host.broker.sessions.clients(group)

    def forget_silent_clients(self, silent_ms: int) -> list[ClientSeen]:
        """Forget who was silent for longer than `silent_ms`; see EngineControl."""
        return self._host.broker.sessions.forget_silent(silent_ms)

    def members(self, group: str | None = None) -> list[MemberState]:
        """Return the members that keep a heartbeat, by group and client id."""
        return self._host.broker.membership.states(group)

    def rebalances(self, group: str | None = None) -> list[Rebalance]:
        """Return the assignment in force of one group or of all that have one, by group."""
        return self._host.broker.membership.rebalances(group)

    def queue_locks(self, group: str | None = None) -> list[QueueLockState]:
        """Return the locks in the table by group, topic and queue, expired ones too."""
        return self._host.broker.locks.states(group)

    def release_lock(
        self, group: str, place: QueuePlace, *, reason: str, expected_owner: str | None = None
    ) -> LockTransition | None:
        """Take a lock from whoever holds it; see EngineControl."""
        self._host.check_serving()
        with self._host.writing():
            return self._host.broker.locks.force(
                group, place, reason=reason, expected_owner=expected_owner
            )

    def rebalance(self, *, reason: str, group: str | None = None) -> list[Rebalance]:
        """Expire silent members and share out the queues again; return what changed."""
        self._host.check_serving()
        try:
            with self._host.writing():
                return self._host.broker.rebalance(reason=reason, group=group)
        finally:
            self._host.arm_timers()

    def history(self, after: int) -> GroupHistory:
        """Return the lines of history behind a number; see EngineControl."""
        return self._host.broker.history(after)

    def lock_refusals(self, since_ms: int = 0) -> list[LockRefused]:
        """Return how often locks were refused in each minute; see EngineControl."""
        return self._host.broker.locks.refused.since(since_ms)

    def backlog(self, group: str | None = None) -> list[QueueBacklog]:
        """Return what one group or all have left to do, by group, topic and queue."""
        return self._host.broker.backlog.rows(group)

    def status(self) -> EngineStatus:
        """Return one reading of the counters."""
        host, broker, log = self._host, self._host.broker, self._host.broker.log
        return EngineStatus(
            store_id=log.store_id,
            epoch=log.epoch,
            log_start=log.log_start,
            written_offset=log.written_offset,
            synced_offset=log.synced_offset,
            appended_messages=broker.appender.message_count,
            appended_bytes=broker.appender.byte_count,
            delivered_messages=broker.pop.message_count,
            settled_messages=broker.settler.message_count,
            parked=host.holds.parked,
            leases=len(broker.state.leases),
            syncs=host.sync_count,
            free_bytes=broker.free_bytes(),
            recovery=log.recovery,
            rebalances=host.assigned_count,
            disk_bytes=broker.disk_bytes(),
            room=log.room.state,
            room_reason=log.room.reason,
            sync_ms=host.commits.sync_ms,
            pool_bytes=host.config.flush_pool_bytes,
            pooled_bytes=log.pooled_bytes,
            retention=broker.retention.status(),
            compaction=broker.compaction.status(),
            quarantine=broker.damage.ranges,
            quarantined_ranges=broker.damage.range_count,
            unreadable_messages=broker.damage.message_count,
            damaged_queue_files=broker.queues.damaged_files,
            segment_bytes=host.config.segment_bytes,
            opened_ms=host.opened_ms,
            queues_dispatched=broker.queues.dispatched_offset,
            index_dispatched=broker.index.dispatched_offset,
            index_waiting=len(broker.index.incoming),
            checkpoint_offset=broker.queues.checkpoint_offset,
        )
