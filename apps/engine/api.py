"""The verbs every front door may call. Knows values and errors, not how they are carried out."""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

from apps.engine.caretypes import (
    CareRequest,
    CareResult,
    ResetRequest,
    ResetResult,
    WhatIf,
    WhatIfRequest,
)
from apps.engine.delaytypes import DelayedCopies, DelayedPage, DelayStatus, LevelsDelivered, Recall
from apps.engine.failuretypes import FailedMessage, GroupRetries, ResendResult, ReturnResult
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
from apps.engine.retentiontypes import Cleaned
from apps.engine.searchtypes import SearchRequest, SearchResult
from apps.engine.transactiontypes import (
    Begun,
    Check,
    Ended,
    GivenUpPage,
    Outcome,
    PendingTransaction,
    SentAfterAll,
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

T = TypeVar("T")

# The answer of a verb that may have to wait for the disk: an engine of this process gives an
# awaitable, which `bridge.call` awaits where the engine lives; one of another process the value.
Later: TypeAlias = T | Awaitable[T]


class EngineControl(Protocol):
    """The verbs that answer at once: what there is and how far it got, not the messages.

    The engine may be in another process; every verb then also raises Unreachable.
    """

    @property
    def catalog(self) -> CatalogSnapshot:
        """Return the snapshot the engine obeys."""
        ...

    def publish_catalog(self, snapshot: CatalogSnapshot) -> None:
        """Obey `snapshot` from here on and keep it on disk; ignore one that is not newer."""
        ...

    def queue_ranges(self, topic: str) -> list[QueueRange]:
        """Return what each queue of the topic holds, by queue number. Raises UnknownTopic."""
        ...

    def topic_ranges(self, topics: Collection[str] | None = None) -> dict[str, list[QueueRange]]:
        """Return what each queue of the topics holds, by topic; None asks for all topics.

        A topic the catalog does not have is left out.
        """
        ...

    def topic_totals(self) -> dict[str, TopicTotal]:
        """Return what the queues, or lite topics, of each topic have in sum, by topic."""
        ...

    def group_progress(self, group: str | None = None) -> list[GroupProgress]:
        """Return progress per group and queue that has any; of one group, or of all."""
        ...

    def clients(self, group: str | None = None) -> list[ClientSeen]:
        """Return the clients that received lately, by group and client id; of one group, or of all.

        Lately is since the broker started and since they were last forgotten as silent.
        """
        ...

    def forget_silent_clients(self, silent_ms: int) -> list[ClientSeen]:
        """Forget the clients that were not seen for longer than `silent_ms`, and return them."""
        ...

    def members(self, group: str | None = None) -> list[MemberState]:
        """Return the members that keep a heartbeat, by group and client id."""
        ...

    def rebalances(self, group: str | None = None) -> list[Rebalance]:
        """Return the assignment in force of one group or of all that have one, by group."""
        ...

    def queue_locks(self, group: str | None = None) -> list[QueueLockState]:
        """Return the locks in the table by group, topic and queue, expired ones too."""
        ...

    def release_lock(
        self, group: str, place: QueuePlace, *, reason: str, expected_owner: str | None = None
    ) -> LockTransition | None:
        """Take a lock from whoever holds it; None when nobody does.

        Raises LockLost, with nothing changed, when the owner is not the one expected.
        """
        ...

    def rebalance(self, *, reason: str, group: str | None = None) -> list[Rebalance]:
        """Expire silent members and share out the queues again; return what changed."""
        ...

    def history(self, after: int) -> GroupHistory:
        """Return the lines of history behind a number, oldest first, at most 1,000."""
        ...

    def lock_refusals(self, since_ms: int = 0) -> list[LockRefused]:
        """Return how often locks were refused in each minute of the last hour, the oldest first.

        Only minutes that begin at `since_ms`, wall time, or later. A restart begins anew.
        """
        ...

    def backlog(self, group: str | None = None) -> list[QueueBacklog]:
        """Return what one group or all have left to do, by group, topic and queue."""
        ...

    def attend(self, request: CareRequest) -> Later[CareResult]:
        """Suspend or resume a queue for a group, skip the message at its head or park it.

        A suspended queue gives the group nothing until it is resumed, also over restarts; what is
        out may be settled. A skip settles the head, exactly one message; a park makes it a dead
        letter of the group as well, both or neither. Whoever read the queue begins anew behind it,
        and what it says of the old head later changes nothing. Safe to repeat: the same again is
        answered as such. Raises HeadMoved where the head is not the expected one, NotOrdered for a
        skip or park where nothing is read in order, InvalidName, InvalidArgument, UnknownTopic,
        UnknownQueue, NotPermitted or StoreFull, with nothing changed.
        """
        ...

    def reset_offsets(self, request: ResetRequest) -> Later[ResetResult]:
        """Have a group go on elsewhere in some queues, all or none; see ResetRequest.

        What it was handed out there is void, and its members begin anew. Safe to repeat. Raises
        OffsetsMoved where it is not where it is expected, OffsetOutOfRange, InvalidName,
        InvalidArgument, UnknownTopic, UnknownQueue, NotPermitted or StoreFull, with nothing
        changed.
        """
        ...

    def offsets_at(self, places: Sequence[QueuePlace], time_ms: int) -> Later[list[int]]:
        """Return the offset of the first message of each queue stored at or after a wall time.

        The end of a queue that has none. Raises InvalidArgument, UnknownTopic, UnknownQueue or
        NotPermitted.
        """
        ...

    def what_if(self, request: WhatIfRequest) -> WhatIf:
        """Return how a group's queues would be shared out; changes nothing. See WhatIfRequest.

        Raises InvalidName or InvalidArgument.
        """
        ...

    def clean_now(self) -> Later[Cleaned]:
        """Delete segments that are too old or too many, whatever the hour, ten at the most.

        Returns what went, whether more may go, and who needs what did not. Raises StoreFull,
        WriteFailed or SyncFailed.
        """
        ...

    def status(self) -> EngineStatus:
        """Return one reading of the counters."""
        ...

    def own_ranges(self, prefix: str) -> dict[str, list[QueueRange]]:
        """Return what the queues of the engine's own topics hold whose names start with `prefix`.

        Those are the topics of retries and dead letters, and RocketMQ's system topics; only ones
        that ever held a message are there.
        """
        ...

    def lite_topics(self, topic: str, *, after: str = "", count: int = 100) -> LitePage:
        """Return the lite topics of a parent behind a name, by name; those that are gone are none.

        Raises UnknownTopic where the parent is not there or is no parent, InvalidArgument where
        `count` is not 1 to 1,000.
        """
        ...

    def lite_subscriptions(self, group: str) -> tuple[LiteSubscription, ...]:
        """Return the clients of a group that have lite topics, by client id. Raises InvalidName."""
        ...

    def lite_totals(self) -> dict[str, LiteTotal]:
        """Return what all lite topics of each parent have in sum, by parent.

        It costs as much whether there are few lite topics or a hundred thousand.
        """
        ...

    def lite_backlog(self, group: str | None = None) -> list[LiteBacklog]:
        """Return what one group or all have left to do in lite topics, by group and parent.

        `backlog` and `group_progress` have none of it. A group counts with all lite topics of a
        parent once it has read one of them or a client of it is subscribed to one; where it has
        read nothing, as much as it would be given: all where a client is subscribed, else as was
        decided about where the group begins.
        """
        ...

    def deliver_levels(self, messages_max: int = 1_000) -> Later[LevelsDelivered]:
        """Deliver what is due in the delay levels, up to so many messages; safe to repeat.

        Each message and the progress of its level are one frame of the log: it is delivered once,
        whatever ends in between. Raises StoreFull.
        """
        ...

    def delay_levels(self) -> LevelsDelivered:
        """Return where each level is, without delivering anything; `more` says that some is due."""
        ...

    def delayed(
        self,
        *,
        level: int | None = None,
        topic: str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        cursor: str | None = None,
        messages_max: int = 100,
    ) -> Later[DelayedPage]:
        """List delayed messages by due time, of a level, or those with a delay of their own.

        `from_ms` is the first due time that is meant, `to_ms` the first that is not any more.
        Raises InvalidArgument.
        """
        ...

    def delayed_copies(self, message_id: str) -> Later[DelayedCopies]:
        """Find what waits in delay levels of the message with an id: itself, and retries of it.

        It is found by the index, however much waits. Raises InvalidArgument.
        """
        ...

    def delay_status(self) -> DelayStatus:
        """Return the counters of messages with a delay of their own."""
        ...

    def recall(self, handle: str) -> Later[Recall]:
        """Cancel a delayed message, for good when this returns CANCELLED; safe to repeat."""
        ...

    def deliver_now(self, handle: str) -> Later[Recall]:
        """Deliver a delayed message before its time: DELIVERED when it is in its queue now.

        CANCELLED or UNKNOWN change nothing.
        """
        ...

    def resend(
        self, group: str, queue_offsets: Sequence[int], *, topic: str | None = None, by: str = ""
    ) -> Later[list[ResendResult]]:
        """Send dead letters of a group again, each at most once ever; one result each, in order.

        To the topic they come from, or to `topic`, which may be the group's own retry topic. Up to
        1,000 offsets of `%DLQ%group`. Raises InvalidArgument.
        """
        ...

    def group_retries(self, group: str) -> Later[GroupRetries]:
        """Count by number of failures what is to come again to a group, in a bounded look.

        Of up to 10,000 messages of its retry topic, 1,000 of each delay level and 16,384 with a
        delay of their own; the answer says where there are more. Raises InvalidName.
        """
        ...

    def transactions(
        self,
        *,
        producer_group: str | None = None,
        after: int = -1,
        messages_max: int = 100,
    ) -> Later[list[PendingTransaction]]:
        """List undecided transactions behind a half offset, oldest first."""
        ...

    def transaction_status(self) -> TransactionStatus:
        """Return the counters of transactions."""
        ...

    def end_transaction(
        self, transaction_id: str, outcome: Outcome, *, by: str = ""
    ) -> Later[Ended]:
        """Commit or roll back; the same decision again is answered as a repeat.

        `by` says who, for a person's decision. Raises UnknownTransaction, TransactionDecided when
        it was decided otherwise, and what storing a message raises.
        """
        ...

    def check_now(self, transaction_id: str) -> PendingTransaction | None:
        """Have the producers asked at once; None for a transaction that is not pending."""
        ...

    def give_up_transactions(self, messages_max: int = 100) -> Later[int]:
        """Give up what was checked often enough or is too old; return how many. Safe to repeat."""
        ...

    def given_up(self, *, before: int | None = None, messages_max: int = 100) -> Later[GivenUpPage]:
        """List the last given-up messages before an offset, or of all, the newest first."""
        ...

    def send_given_up(
        self, given_up_offset: int, *, transaction_id: str, by: str = ""
    ) -> Later[SentAfterAll]:
        """Send a given-up message where it was for, once ever; again is answered as a repeat.

        Durable when this returns. Raises UnknownTransaction where the message at that offset is not
        of the transaction, UnknownTopic when its topic was deleted, and StoreFull.
        """
        ...


class EngineAPI(EngineControl, Protocol):
    """What a door needs of an engine. Coroutines run on the engine's own event loop."""

    async def append(self, batches: Sequence[RecordBatch], *, ack: AckMode) -> list[Appended]:
        """Store batches in one atomic frame and return where they went, in order.

        All batches are checked before any is written: an error stores nothing. Records with
        RocketMQ's properties of a delay (DELAY, TIMER_DELIVER_MS, TIMER_DELAY_MS or
        TIMER_DELAY_SEC) wait for their time; a batch has a delay in every record or in none.
        Records with PRODUCER_ID and PRODUCER_SEQ are stored once, however often they are sent.
        Returns when `ack` is reached. Raises UnknownTopic, UnknownQueue, NotPermitted,
        MalformedBatch, ChecksumMismatch, MessageTooLarge, BatchTooLarge, DelayTooLong,
        SequenceTooOld, StoreFull, Stopping.
        """
        ...

    async def pull(self, request: PullRequest) -> PullResult:
        """Read a queue from an offset. Raises UnknownTopic, UnknownQueue, InvalidArgument."""
        ...

    async def search(self, request: SearchRequest) -> SearchResult:
        """Find messages that readers may see, the newest first; see SearchRequest.

        The work is bounded, and the result says where that ended it. Raises UnknownTopic,
        UnknownQueue, NotPermitted or InvalidArgument.
        """
        ...

    async def receive(self, request: ReceiveRequest) -> ReceiveResult:
        """Hand out messages and hide them. Raises UnknownTopic, InvalidName, InvalidArgument."""
        ...

    async def sync_lite(self, request: LiteSync) -> LiteSynced:
        """Change the set of lite topics that a client receives from; see LiteSync.

        Sets are in memory only: a client says its own again every 30 s, and is forgotten when it
        neither did nor received for 3 minutes. In a group that is EXCLUSIVE who subscribes last has
        a lite topic alone; who lost it may not come back by saying its whole set again, until it
        has said it once without, subscribed anew or was silent for 3 minutes. Safe to repeat.
        Raises UnknownTopic where the parent is not there or is no parent, NotPermitted where it may
        not be read, the group is disabled or reads another parent, InvalidLiteTopic,
        LiteSubscriptionsExhausted, InvalidName or InvalidArgument, with nothing changed.
        """
        ...

    async def ack(
        self, group: str, handles: Sequence[str], *, epoch: int | None = None
    ) -> list[SettleResult]:
        """Settle handed-out messages for good; one result a handle, in order.

        With an `epoch` each must be of a queue whose lock has it. Raises LockLost and settles
        nothing when one is not.
        """
        ...

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
        """Give messages back, visible again after `delay_ms`. `epoch` is that of `ack`.

        Without `delay_ms` the delay is that of `delay_level`, and without both what the group's
        retry policy says; level -1 makes them dead letters at once, and so does a failure more
        than the group allows.

        Where it is no failure they are put off: the attempt counts for nothing, and the next one
        has its number. That goes with `delay_ms` alone; raises InvalidArgument for anything else.
        """
        ...

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
        """Take over messages that a reader of queues failed at; one result each, in order.

        Each goes to the group's retry topic by way of a delay, as its policy says or as asked, or
        to its dead letters: for level -1, and after its last retry. The group is not given the
        message at its old place again, so its reader may commit beyond it. Asked again for the
        same message it answers ALREADY. Raises InvalidArgument, UnknownTopic, UnknownQueue,
        NotPermitted, LockLost or StaleGeneration, with nothing changed.
        """
        ...

    async def begin_transaction(
        self,
        batch: RecordBatch,
        *,
        producer_group: str,
        check_immunity_ms: int | None = None,
        ack: AckMode,
    ) -> Begun:
        """Store one message that nobody sees until its transaction is committed.

        The first check comes `check_immunity_ms` after; None is the store's own. Raises what
        `append` raises, and InvalidName.
        """
        ...

    async def receive_checks(
        self, producer_group: str, *, client_id: str, checks_max: int = 32, wait_ms: int = 0
    ) -> list[Check]:
        """Hand out half messages of a producer group that are due for a check; wait for the first.

        One that is handed out is due again after the check interval, to any client of the group.
        """
        ...

    async def extend(
        self, group: str, handles: Sequence[str], *, invisible_ms: int, epoch: int | None = None
    ) -> list[SettleResult]:
        """Hide messages for `invisible_ms` from here on; the old handles are void.

        `epoch` is that of `ack`.
        """
        ...

    async def renew(
        self, group: str, tokens: Sequence[str], *, invisible_ms: int
    ) -> list[SettleResult]:
        """Hide what is left of leases for `invisible_ms` from here on; their handles stay good.

        `tokens` name whole leases; one result each, in order. Raises InvalidName or
        InvalidArgument.
        """
        ...

    async def commit_offsets(
        self,
        group: str,
        commits: Sequence[OffsetCommit],
        *,
        client_id: str = "",
        generation: int | None = None,
    ) -> None:
        """Set the group's progress; a member, that is with a `client_id`, never moves it back.

        Raises OffsetOutOfRange, LockLost or StaleGeneration, and changes nothing, when one is bad.
        """
        ...

    async def begin_offsets(
        self,
        group: str,
        places: Sequence[QueuePlace],
        *,
        consume_from: ConsumeFrom | None = None,
        consume_from_ms: int | None = None,
    ) -> list[BeginOffset]:
        """Return where the group goes on in each queue, in order.

        Where it has no progress it begins by what was decided about the group, else as asked, else
        at the first message; that is recorded, so that it begins once. Raises UnknownTopic,
        UnknownQueue or InvalidArgument.
        """
        ...

    async def offset_at(self, topic: str, queue: int, time_ms: int) -> int:
        """Return the offset of the first message stored at or after a wall time.

        The end of the queue when there is none. Raises UnknownTopic or UnknownQueue.
        """
        ...

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResult:
        """Join a group or stay in it; see HeartbeatRequest.

        Raises InvalidName, InvalidArgument, InvalidFilter, UnknownTopic, NotPermitted, Overloaded.
        """
        ...

    async def leave(self, group: str, client_id: str) -> None:
        """Leave a group at once; its locks are released. Nothing happens to who is no member."""
        ...

    async def acquire_locks(
        self, group: str, client_id: str, places: Sequence[QueuePlace]
    ) -> LockAnswer:
        """Take or renew locks of queues, in one atomic step, each that is free or the caller's."""
        ...

    async def release_locks(
        self,
        group: str,
        client_id: str,
        places: Sequence[QueuePlace],
        *,
        epochs: Mapping[QueuePlace, int] | None = None,
    ) -> LockAnswer:
        """Give locks back; with an epoch, only that possession. `locked` is empty.

        Those of others are refused.
        """
        ...
