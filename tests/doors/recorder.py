"""An engine around another that keeps what it was asked to do, and can be told to fail."""

from collections.abc import Collection, Mapping, Sequence

from apps.engine.api import EngineAPI, Later
from apps.engine.delaytypes import DelayStatus, LevelsDelivered, Recall
from apps.engine.failuretypes import FailedMessage, ReturnResult
from apps.engine.grouptypes import (
    BeginOffset,
    GroupHistory,
    HeartbeatRequest,
    HeartbeatResult,
    LockAnswer,
    LockRefused,
    LockTransition,
    MemberState,
    QueueBacklog,
    QueueLockState,
    QueuePlace,
    Rebalance,
)
from apps.engine.litetypes import (
    LiteBacklog,
    LitePage,
    LiteSubscription,
    LiteSync,
    LiteSynced,
    LiteTotal,
)
from apps.engine.searchtypes import SearchRequest, SearchResult
from apps.engine.transactiontypes import (
    Begun,
    Check,
    Ended,
    Outcome,
    PendingTransaction,
    TransactionStatus,
)
from apps.engine.types import (
    AckMode,
    Appended,
    CatalogSnapshot,
    ClientSeen,
    ConsumeFrom,
    EngineStatus,
    GroupProgress,
    OffsetCommit,
    PullRequest,
    PullResult,
    QueueRange,
    ReceiveRequest,
    ReceiveResult,
    RecordBatch,
    SettleResult,
    TopicTotal,
)


class Recorder:
    """An engine that keeps what it was asked to do, and can be told to fail."""

    def __init__(self, engine: EngineAPI) -> None:
        self._engine = engine
        self.calls: list[str] = []
        self.appends: list[tuple[list[RecordBatch], AckMode]] = []
        self.heartbeats: list[HeartbeatRequest] = []
        self.failure: Exception | None = None
        self.failure_count = 0

    @property
    def catalog(self) -> CatalogSnapshot:
        return self._engine.catalog

    def _asked(self, verb: str) -> None:
        self.calls.append(verb)
        if self.failure is not None:
            self.failure_count += 1
            raise self.failure

    def publish_catalog(self, snapshot: CatalogSnapshot) -> None:
        self._engine.publish_catalog(snapshot)

    async def append(self, batches: Sequence[RecordBatch], *, ack: AckMode) -> list[Appended]:
        self._asked("append")
        self.appends.append((list(batches), ack))
        return await self._engine.append(batches, ack=ack)

    async def pull(self, request: PullRequest) -> PullResult:
        self._asked("pull")
        return await self._engine.pull(request)

    async def search(self, request: SearchRequest) -> SearchResult:
        self._asked("search")
        return await self._engine.search(request)

    async def receive(self, request: ReceiveRequest) -> ReceiveResult:
        self._asked("receive")
        return await self._engine.receive(request)

    async def ack(
        self, group: str, handles: Sequence[str], *, epoch: int | None = None
    ) -> list[SettleResult]:
        self._asked("ack")
        return await self._engine.ack(group, handles, epoch=epoch)

    async def nack(
        self,
        group: str,
        handles: Sequence[str],
        *,
        delay_ms: int | None = None,
        delay_level: int | None = None,
        reason: str = "",
        epoch: int | None = None,
        is_failure: bool = True,
    ) -> list[SettleResult]:
        self._asked("nack")
        return await self._engine.nack(
            group,
            handles,
            delay_ms=delay_ms,
            delay_level=delay_level,
            reason=reason,
            epoch=epoch,
            is_failure=is_failure,
        )

    async def send_back(
        self,
        group: str,
        messages: Sequence[FailedMessage],
        *,
        client_id: str = "",
        delay_level: int | None = None,
        delay_ms: int | None = None,
        reason: str = "",
        generation: int | None = None,
    ) -> list[ReturnResult]:
        self._asked("send_back")
        return await self._engine.send_back(
            group,
            messages,
            client_id=client_id,
            delay_level=delay_level,
            delay_ms=delay_ms,
            reason=reason,
            generation=generation,
        )

    async def begin_transaction(
        self,
        batch: RecordBatch,
        *,
        producer_group: str,
        check_immunity_ms: int | None = None,
        ack: AckMode,
    ) -> Begun:
        self._asked("begin_transaction")
        self.appends.append(([batch], ack))
        return await self._engine.begin_transaction(
            batch, producer_group=producer_group, check_immunity_ms=check_immunity_ms, ack=ack
        )

    def transactions(
        self, *, producer_group: str | None = None, after: int = -1, messages_max: int = 100
    ) -> Later[list[PendingTransaction]]:
        return self._engine.transactions(
            producer_group=producer_group, after=after, messages_max=messages_max
        )

    def end_transaction(
        self, transaction_id: str, outcome: Outcome, *, by: str = ""
    ) -> Later[Ended]:
        self._asked("end_transaction")
        return self._engine.end_transaction(transaction_id, outcome, by=by)

    async def receive_checks(
        self, producer_group: str, *, client_id: str, checks_max: int = 32, wait_ms: int = 0
    ) -> list[Check]:
        self._asked("receive_checks")
        return await self._engine.receive_checks(
            producer_group, client_id=client_id, checks_max=checks_max, wait_ms=wait_ms
        )

    def recall(self, handle: str) -> Later[Recall]:
        self._asked("recall")
        return self._engine.recall(handle)

    def deliver_now(self, handle: str) -> Later[Recall]:
        self._asked("deliver_now")
        return self._engine.deliver_now(handle)

    def deliver_levels(self, messages_max: int = 1_000) -> Later[LevelsDelivered]:
        return self._engine.deliver_levels(messages_max)

    def delay_levels(self) -> LevelsDelivered:
        return self._engine.delay_levels()

    def delay_status(self) -> DelayStatus:
        return self._engine.delay_status()

    def transaction_status(self) -> TransactionStatus:
        return self._engine.transaction_status()

    def own_ranges(self, prefix: str) -> dict[str, list[QueueRange]]:
        return self._engine.own_ranges(prefix)

    async def extend(
        self, group: str, handles: Sequence[str], *, invisible_ms: int, epoch: int | None = None
    ) -> list[SettleResult]:
        self._asked("extend")
        return await self._engine.extend(group, handles, invisible_ms=invisible_ms, epoch=epoch)

    async def commit_offsets(
        self,
        group: str,
        commits: Sequence[OffsetCommit],
        *,
        client_id: str = "",
        generation: int | None = None,
    ) -> None:
        self._asked("commit_offsets")
        await self._engine.commit_offsets(
            group, commits, client_id=client_id, generation=generation
        )

    async def begin_offsets(
        self,
        group: str,
        places: Sequence[QueuePlace],
        *,
        consume_from: ConsumeFrom | None = None,
        consume_from_ms: int | None = None,
    ) -> list[BeginOffset]:
        self._asked("begin_offsets")
        return await self._engine.begin_offsets(
            group, places, consume_from=consume_from, consume_from_ms=consume_from_ms
        )

    async def offset_at(self, topic: str, queue: int, time_ms: int) -> int:
        self._asked("offset_at")
        return await self._engine.offset_at(topic, queue, time_ms)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResult:
        self._asked("heartbeat")
        self.heartbeats.append(request)
        return await self._engine.heartbeat(request)

    async def sync_lite(self, request: LiteSync) -> LiteSynced:
        self._asked("sync_lite")
        return await self._engine.sync_lite(request)

    def lite_topics(self, topic: str, *, after: str = "", count: int = 100) -> LitePage:
        return self._engine.lite_topics(topic, after=after, count=count)

    def lite_subscriptions(self, group: str) -> tuple[LiteSubscription, ...]:
        return self._engine.lite_subscriptions(group)

    def lite_totals(self) -> dict[str, LiteTotal]:
        return self._engine.lite_totals()

    def lite_backlog(self, group: str | None = None) -> list[LiteBacklog]:
        return self._engine.lite_backlog(group)

    async def leave(self, group: str, client_id: str) -> None:
        self._asked("leave")
        await self._engine.leave(group, client_id)

    async def acquire_locks(
        self, group: str, client_id: str, places: Sequence[QueuePlace]
    ) -> LockAnswer:
        self._asked("acquire_locks")
        return await self._engine.acquire_locks(group, client_id, places)

    async def release_locks(
        self,
        group: str,
        client_id: str,
        places: Sequence[QueuePlace],
        *,
        epochs: Mapping[QueuePlace, int] | None = None,
    ) -> LockAnswer:
        self._asked("release_locks")
        return await self._engine.release_locks(group, client_id, places, epochs=epochs)

    def members(self, group: str | None = None) -> list[MemberState]:
        return self._engine.members(group)

    def rebalances(self, group: str | None = None) -> list[Rebalance]:
        return self._engine.rebalances(group)

    def queue_locks(self, group: str | None = None) -> list[QueueLockState]:
        return self._engine.queue_locks(group)

    def release_lock(
        self, group: str, place: QueuePlace, *, reason: str, expected_owner: str | None = None
    ) -> LockTransition | None:
        return self._engine.release_lock(group, place, reason=reason, expected_owner=expected_owner)

    def rebalance(self, *, reason: str, group: str | None = None) -> list[Rebalance]:
        return self._engine.rebalance(reason=reason, group=group)

    def lock_refusals(self, since_ms: int = 0) -> list[LockRefused]:
        return self._engine.lock_refusals(since_ms)

    def history(self, after: int) -> GroupHistory:
        return self._engine.history(after)

    def backlog(self, group: str | None = None) -> list[QueueBacklog]:
        return self._engine.backlog(group)

    def queue_ranges(self, topic: str) -> list[QueueRange]:
        return self._engine.queue_ranges(topic)

    def topic_ranges(self, topics: Collection[str] | None = None) -> dict[str, list[QueueRange]]:
        return self._engine.topic_ranges(topics)

    def topic_totals(self) -> dict[str, TopicTotal]:
        return self._engine.topic_totals()

    def clients(self, group: str | None = None) -> list[ClientSeen]:
        return self._engine.clients(group)

    def forget_silent_clients(self, silent_ms: int) -> list[ClientSeen]:
        return self._engine.forget_silent_clients(silent_ms)

    def group_progress(self, group: str | None = None) -> list[GroupProgress]:
        return self._engine.group_progress(group)

    def status(self) -> EngineStatus:
        return self._engine.status()
