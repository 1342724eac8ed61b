"""An engine for tests of the control plane: a catalog, ranges and progress, and no store.

What it does about time and failure is in `fake_care`.
"""

from collections.abc import Collection, Iterable

from apps.engine.codec.layout import TRACE_TOPIC
from apps.engine.errors import LockLost, UnknownTopic
from apps.engine.grouptypes import (
    GroupHistory,
    LockChange,
    LockRefused,
    LockTransition,
    MemberState,
    QueueBacklog,
    QueueLockState,
    QueuePlace,
    Rebalance,
)
from apps.engine.litetypes import LiteBacklog, LitePage, LiteSubscription, LiteTopic
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
from tests.web.fake_care import FakeCare
from tests.web.fake_operators import FakeOperators


class FakeEngine(FakeCare, FakeOperators):
    """Obeys snapshots as an engine must, and tells what the test has put in."""

    def __init__(self) -> None:
        FakeCare.__init__(self)
        FakeOperators.__init__(self)
        self.catalog = CatalogSnapshot()
        self.published: list[CatalogSnapshot] = []
        self.lengths: dict[tuple[str, int], int] = {}
        self.progress: list[GroupProgress] = []
        self.seen: list[ClientSeen] = []
        self.forgotten_ms: list[int] = []
        self.joined: list[MemberState] = []
        self.assigned: list[Rebalance] = []
        self.locks: list[QueueLockState] = []
        self.transitions: list[LockTransition] = []
        self.refused: list[LockRefused] = []
        self.rebalanced: list[Rebalance] = []
        self.rebalance_reasons: list[str] = []
        self.left_to_do: list[QueueBacklog] = []
        self.left_in_lites: list[LiteBacklog] = []
        self.lites: dict[str, list[LiteTopic]] = {}
        self.subscribed: dict[str, list[LiteSubscription]] = {}
        self.store_id = "fa4e" * 8

    def publish_catalog(self, snapshot: CatalogSnapshot) -> None:
        if snapshot.version > self.catalog.version:
            self.catalog = snapshot
            self.published.append(snapshot)

    def queue_ranges(self, topic: str) -> list[QueueRange]:
        spec = self.catalog.topics.get(topic)
        if topic == TRACE_TOPIC:
            spec = TopicSpec(name=topic, queue_count=1)
        if spec is None:
            raise UnknownTopic(topic)
        return [
            QueueRange(
                topic=topic,
                queue=queue,
                min_offset=0,
                max_offset=self.lengths.get((topic, queue), 0),
            )
            for queue in range(spec.queue_count)
        ]

    def topic_ranges(self, topics: Collection[str] | None = None) -> dict[str, list[QueueRange]]:
        return {
            name: self.queue_ranges(name)
            for name in self.catalog.topics
            if topics is None or name in topics
        }

    def topic_totals(self) -> dict[str, TopicTotal]:
        return {
            name: TopicTotal(
                sent=sum(one.max_offset for one in found), held=sum(one.held for one in found)
            )
            for name, found in self.topic_ranges().items()
        }

    def lite_topics(self, topic: str, *, after: str = "", count: int = 100) -> LitePage:
        found = self.lites.get(topic, [])
        return LitePage(
            total=len(found), topics=tuple([one for one in found if one.name > after][:count])
        )

    def lite_subscriptions(self, group: str) -> tuple[LiteSubscription, ...]:
        return tuple(self.subscribed.get(group, []))

    def lite_backlog(self, group: str | None = None) -> list[LiteBacklog]:
        return [row for row in self.left_in_lites if group in (None, row.group)]

    def clients(self, group: str | None = None) -> list[ClientSeen]:
        return [client for client in self.seen if group in (None, client.group)]

    def forget_silent_clients(self, silent_ms: int) -> list[ClientSeen]:
        self.forgotten_ms.append(silent_ms)
        return []

    def group_progress(self, group: str | None = None) -> list[GroupProgress]:
        return [row for row in self.progress if group in (None, row.group)]

    def members(self, group: str | None = None) -> list[MemberState]:
        return [member for member in self.joined if group in (None, member.group)]

    def rebalances(self, group: str | None = None) -> list[Rebalance]:
        return [found for found in self.assigned if group in (None, found.group)]

    def queue_locks(self, group: str | None = None) -> list[QueueLockState]:
        return [lock for lock in self.locks if group in (None, lock.group)]

    def release_lock(
        self, group: str, place: QueuePlace, *, reason: str, expected_owner: str | None = None
    ) -> LockTransition | None:
        wanted = (group, place.topic, place.queue)
        held = [lock for lock in self.locks if (lock.group, lock.topic, lock.queue) == wanted]
        if not held:
            return None
        if expected_owner not in (None, held[0].owner):
            raise LockLost(f"the lock is {held[0].owner}'s")
        self.locks.remove(held[0])
        transition = LockTransition(
            number=len(self.transitions) + 1,
            at_ms=1_000,
            group=group,
            topic=place.topic,
            queue=place.queue,
            change=LockChange.FORCED,
            owner="",
            previous_owner=held[0].owner,
            epoch=held[0].epoch,
            reason=reason,
        )
        self.transitions.append(transition)
        return transition

    def rebalance(self, *, reason: str, group: str | None = None) -> list[Rebalance]:
        self.rebalance_reasons.append(reason)
        return self.rebalances(group)

    def history(self, after: int) -> GroupHistory:
        lines_max = 1_000
        lines = sorted([*self.transitions, *self.rebalanced], key=lambda line: line.number)
        found = [line for line in lines if line.number > after][:lines_max]
        return GroupHistory(
            transitions=tuple(line for line in found if isinstance(line, LockTransition)),
            rebalances=tuple(line for line in found if isinstance(line, Rebalance)),
            last=found[-1].number if found else after,
        )

    def lock_refusals(self, since_ms: int = 0) -> list[LockRefused]:
        return [row for row in self.refused if row.minute_ms >= since_ms]

    def backlog(self, group: str | None = None) -> list[QueueBacklog]:
        return [row for row in self.left_to_do if group in (None, row.group)]

    def status(self) -> EngineStatus:
        sent = sum(self.lengths.values())
        return EngineStatus(
            store_id=self.store_id,
            epoch=1,
            log_start=0,
            written_offset=sent * 100,
            synced_offset=sent * 100,
            appended_messages=sent,
            appended_bytes=sent * 100,
            delivered_messages=sum(row.delivered for row in self.progress),
            settled_messages=sum(row.committed for row in self.progress),
            parked=sum(client.is_waiting for client in self.seen),
            leases=0,
            syncs=0,
            free_bytes=10**12,
            recovery=RecoveryReport(
                epoch=1,
                clean=True,
                scanned_bytes=0,
                scanned_records=0,
                cut_bytes=0,
                cut_reason="",
                log_end=0,
            ),
        )


def progress(
    group: str,
    topic: str,
    queue: int,
    *,
    committed: int,
    delivered: int,
    max_offset: int | None = None,
) -> GroupProgress:
    """Build progress in one queue; the queue ends where delivery does unless told otherwise."""
    return GroupProgress(
        group=group,
        topic=topic,
        queue=queue,
        committed=committed,
        delivered=delivered,
        in_flight=delivered - committed,
        max_offset=delivered if max_offset is None else max_offset,
    )


def client(
    group: str,
    client_id: str,
    *topics: str,
    first_seen_ms: int = 0,
    last_seen_ms: int = 0,
    is_waiting: bool = False,
) -> ClientSeen:
    """Build a client as the engine has seen it."""
    return ClientSeen(
        group=group,
        client_id=client_id,
        topics=topics,
        first_seen_ms=first_seen_ms,
        last_seen_ms=last_seen_ms,
        is_waiting=is_waiting,
    )


def names(snapshots: Iterable[CatalogSnapshot]) -> list[list[str]]:
    """Return the topics of each snapshot."""
    return [sorted(snapshot.topics) for snapshot in snapshots]
