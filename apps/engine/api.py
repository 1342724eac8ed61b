"""The verbs every front door may call. Knows values and errors, not how they are carried out."""

from collections.abc import Collection, Sequence
from typing import Protocol

from apps.engine.grouptypes import (
    BeginOffset,
    GroupHistory,
    HeartbeatRequest,
    HeartbeatResult,
    LockAnswer,
    LockTransition,
    MemberState,
    QueueBacklog,
    QueueLockState,
    QueuePlace,
    Rebalance,
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
)


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

    def backlog(self, group: str | None = None) -> list[QueueBacklog]:
        """Return what one group or all have left to do, by group, topic and queue."""
        ...

    def status(self) -> EngineStatus:
        """Return one reading of the counters."""
        ...


class EngineAPI(EngineControl, Protocol):
    """What a door needs of an engine. Coroutines run on the engine's own event loop."""

    async def append(self, batches: Sequence[RecordBatch], *, ack: AckMode) -> list[Appended]:
        """Store batches in one atomic frame and return where they went, in order.

        All batches are checked before any is written: an error stores nothing.
        Returns when `ack` is reached. Raises UnknownTopic, UnknownQueue, NotPermitted,
        MalformedBatch, ChecksumMismatch, MessageTooLarge, BatchTooLarge, StoreFull, Stopping.
        """
        ...

    async def pull(self, request: PullRequest) -> PullResult:
        """Read a queue from an offset. Raises UnknownTopic, UnknownQueue, InvalidArgument."""
        ...

    async def receive(self, request: ReceiveRequest) -> ReceiveResult:
        """Hand out messages and hide them. Raises UnknownTopic, InvalidName, InvalidArgument."""
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
        delay_ms: int = 0,
        reason: str = "",
        epoch: int | None = None,
    ) -> list[SettleResult]:
        """Give messages back, visible again after `delay_ms`. `epoch` is that of `ack`."""
        ...

    async def extend(
        self, group: str, handles: Sequence[str], *, invisible_ms: int, epoch: int | None = None
    ) -> list[SettleResult]:
        """Hide messages for `invisible_ms` from here on; the old handles are void.

        `epoch` is that of `ack`.
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
        self, group: str, client_id: str, places: Sequence[QueuePlace]
    ) -> LockAnswer:
        """Give locks back. `locked` is what is still the caller's: nothing; others are refused."""
        ...
