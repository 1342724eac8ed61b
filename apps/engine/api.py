"""The verbs every front door may call. Knows values and errors, not how they are carried out."""

from collections.abc import Collection, Sequence
from typing import Protocol

from apps.engine.types import (
    AckMode,
    Appended,
    CatalogSnapshot,
    ClientSeen,
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

    async def ack(self, group: str, handles: Sequence[str]) -> list[SettleResult]:
        """Settle handed-out messages for good; one result a handle, in order."""
        ...

    async def nack(
        self, group: str, handles: Sequence[str], *, delay_ms: int = 0, reason: str = ""
    ) -> list[SettleResult]:
        """Give messages back, visible again after `delay_ms`."""
        ...

    async def extend(
        self, group: str, handles: Sequence[str], *, invisible_ms: int
    ) -> list[SettleResult]:
        """Hide messages for `invisible_ms` from here on; the old handles are void."""
        ...

    async def commit_offsets(self, group: str, commits: Sequence[OffsetCommit]) -> None:
        """Set the group's progress. Raises OffsetOutOfRange and changes nothing when one is bad."""
        ...
