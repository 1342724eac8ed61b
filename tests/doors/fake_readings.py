"""What the fake engine tells of itself: how far everything is. Changes nothing but by release."""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sized
from dataclasses import replace

from apps.engine.clock import Clock
from apps.engine.codec.record import decode_record
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
from apps.engine.retentiontypes import RetentionStatus
from apps.engine.types import (
    CatalogSnapshot,
    ClientSeen,
    EngineStatus,
    GroupProgress,
    QueueRange,
    RecoveryReport,
    TopicSpec,
    TopicTotal,
)
from tests.doors.fake_groups import FakeGroups

Place = tuple[str, int]


class Readings:
    """The verbs of EngineAPI that look."""

    catalog: CatalogSnapshot
    _clock: Clock
    _groups: FakeGroups
    _queues: dict[Place, list[bytes]]
    _settled: dict[tuple[str, Place], set[int]]
    _clients: dict[tuple[str, str], tuple[set[str], int, int]]
    _leases: Mapping[str, object]
    _attempts: Sized
    _end: int
    _parked: int

    @abstractmethod
    def _topic(self, name: str, queue: int = 0) -> TopicSpec: ...

    @abstractmethod
    def _out(self, group: str, place: Place) -> set[int]: ...

    def members(self, group: str | None = None) -> list[MemberState]:
        return self._groups.members(group)

    def rebalances(self, group: str | None = None) -> list[Rebalance]:
        return self._groups.rebalances(group)

    def queue_locks(self, group: str | None = None) -> list[QueueLockState]:
        now_ms = self._clock.wall_ms()
        return [
            replace(lock, expires_in_ms=lock.expires_in_ms - now_ms)
            for lock in self._groups.queue_locks(group)
        ]

    def release_lock(
        self, group: str, place: QueuePlace, *, reason: str, expected_owner: str | None = None
    ) -> LockTransition | None:
        return self._groups.release_lock(group, place, reason=reason, expected_owner=expected_owner)

    def rebalance(self, *, reason: str, group: str | None = None) -> list[Rebalance]:
        return self._groups.rebalance(reason=reason, group=group)

    def lock_refusals(self, since_ms: int = 0) -> list[LockRefused]:
        return self._groups.lock_refusals(since_ms)

    def history(self, after: int) -> GroupHistory:
        return self._groups.history(after)

    def backlog(self, group: str | None = None) -> list[QueueBacklog]:
        return [self._backlog_of(row) for row in self.group_progress(group)]

    def _backlog_of(self, row: GroupProgress) -> QueueBacklog:
        place = (row.topic, row.queue)
        oldest_age_ms = None
        if row.committed < row.max_offset:
            stored_ms = decode_record(self._queues[place][row.committed], 0).store_time_ms
            oldest_age_ms = self._clock.wall_ms() - stored_ms
        lock = self._groups.lock(row.group, place)
        return QueueBacklog(
            group=row.group,
            topic=row.topic,
            queue=row.queue,
            committed=row.committed,
            delivered=row.delivered,
            max_offset=row.max_offset,
            in_flight=row.in_flight,
            oldest_age_ms=oldest_age_ms,
            stalled_ms=None,
            head_attempts=None,
            owner=self._groups.owner(row.group, place),
            lock_epoch=None if lock is None else lock.epoch,
            lock_expires_in_ms=(
                None if lock is None else lock.expires_in_ms - self._clock.wall_ms()
            ),
        )

    def queue_ranges(self, topic: str) -> list[QueueRange]:
        return [
            QueueRange(
                topic=topic,
                queue=queue,
                min_offset=0,
                max_offset=len(self._queues.get((topic, queue), [])),
            )
            for queue in range(self._topic(topic).queue_count)
        ]

    def topic_ranges(self, topics: Collection[str] | None = None) -> dict[str, list[QueueRange]]:
        known = self.catalog.topics
        return {name: self.queue_ranges(name) for name in known if topics is None or name in topics}

    def topic_totals(self) -> dict[str, TopicTotal]:
        in_lites = self.lite_totals()
        return {
            name: TopicTotal(sent=in_lites[name].came, held=in_lites[name].held)
            if name in in_lites
            else TopicTotal(
                sent=sum(one.max_offset for one in found), held=sum(one.held for one in found)
            )
            for name, found in self.topic_ranges().items()
        }

    def clients(self, group: str | None = None) -> list[ClientSeen]:
        return [
            ClientSeen(
                group=name,
                client_id=client_id,
                topics=tuple(sorted(topics)),
                first_seen_ms=first_ms,
                last_seen_ms=last_ms,
                is_waiting=False,
            )
            for (name, client_id), (topics, first_ms, last_ms) in sorted(self._clients.items())
            if group in (None, name)
        ]

    def forget_silent_clients(self, silent_ms: int) -> list[ClientSeen]:
        since_ms = self._clock.wall_ms() - silent_ms
        silent = [client for client in self.clients() if client.last_seen_ms < since_ms]
        for client in silent:
            del self._clients[client.group, client.client_id]
        return silent

    def group_progress(self, group: str | None = None) -> list[GroupProgress]:
        found = []
        for (name, place), settled in sorted(self._settled.items()):
            if group in (None, name):
                end = len(self._queues.get(place, []))
                out = self._out(name, place)
                committed = next(o for o in range(end + 1) if o == end or o not in settled)
                found.append(
                    GroupProgress(
                        group=name,
                        topic=place[0],
                        queue=place[1],
                        committed=committed,
                        delivered=max(settled | out, default=-1) + 1,
                        in_flight=len(out),
                        max_offset=end,
                        ready=end - len(settled | out),
                    )
                )
        return found

    def status(self) -> EngineStatus:
        recovery = RecoveryReport(
            epoch=1,
            clean=True,
            scanned_bytes=0,
            scanned_records=0,
            cut_bytes=0,
            cut_reason="",
            log_end=0,
        )
        return EngineStatus(
            store_id="fa4e" * 8,
            epoch=1,
            log_start=0,
            written_offset=self._end,
            synced_offset=self._end,
            appended_messages=sum(map(len, self._queues.values())),
            appended_bytes=self._end,
            delivered_messages=len(self._attempts),
            settled_messages=sum(map(len, self._settled.values())),
            parked=self._parked,
            leases=len(self._leases),
            syncs=0,
            free_bytes=10**12,
            recovery=recovery,
            rebalances=self._groups.rebalance_count,
            retention=RetentionStatus(log_bytes=0, oldest_ms=None, disk_used=0.5),
        )

    def own_ranges(self, prefix: str) -> dict[str, list[QueueRange]]:
        names = {topic for topic, _ in self._queues if topic.startswith(prefix)}
        return {name: self.queue_ranges(name) for name in sorted(names)}
