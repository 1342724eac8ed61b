"""Small frozen values that cross the engine's border. Knows no files, clock or door."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

PERM_WRITE = 2
PERM_READ = 4


class AckMode(StrEnum):
    """What an acknowledged send has reached."""

    SYNC = "sync"
    """The covering fdatasync has returned."""
    ASYNC = "async"
    """The bytes are in the page cache."""
    ONEWAY = "oneway"
    """Nothing is promised."""


class TopicType(StrEnum):
    """Which kinds of message a topic takes."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    MIXED = "MIXED"


class PullStatus(StrEnum):
    """The four answers of a pull, as RocketMQ names them."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


class Settled(StrEnum):
    """What became of one receipt handle."""

    OK = "ok"
    EXPIRED = "expired"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic as the catalog knows it."""

    name: str
    queue_count: int
    type: TopicType = TopicType.MIXED
    perm: int = PERM_READ | PERM_WRITE


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSnapshot:
    """All topics at one moment. `version` only grows; an older one is ignored."""

    version: int = 0
    topics: Mapping[str, TopicSpec] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class RecordBatch:
    """Records in the on-disk layout, unstamped, all of one topic and one queue.

    `payload` is written to while it is stamped and must not be used again after a send.
    `sizes` is int32[n], the length of each record, in order. `tag_hashes` is None for bytes from
    outside, and the engine checks every record; a caller that built the records with this codec
    gives int64[n], and they are taken as they are.
    """

    topic: str
    queue: int
    payload: bytearray
    sizes: NDArray[np.int32]
    tag_hashes: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Where a batch went: queue offsets from `queue_offset` on, records from `log_offset` on."""

    topic: str
    queue: int
    queue_offset: int
    count: int
    log_offset: int
    store_time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBlock:
    """Stamped records of one queue, in order, as they lie in the log.

    `payload` holds the records end to end; `sizes` is int32[n]. Queue offsets are in the records.
    """

    topic: str
    queue: int
    payload: bytes | bytearray | memoryview
    sizes: NDArray[np.int32]

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """Read a queue from an offset; wait up to `wait_ms` when there is nothing new."""

    topic: str
    queue: int
    queue_offset: int
    messages_max: int = 32
    bytes_max: int = 4 * 1024 * 1024
    wait_ms: int = 0
    filter: str = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullResult:
    """The answer to a pull. `next_offset` is where to read on, whatever the status."""

    status: PullStatus
    block: MessageBlock
    next_offset: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveRequest:
    """Hand out messages of a group for `invisible_ms`; wait up to `wait_ms` for the first.

    `high_queue_first` empties a topic's queues from the highest number down, so that a queue's
    number is a priority; otherwise queues take turns.
    """

    group: str
    topics: tuple[str, ...]
    messages_max: int = 32
    bytes_max: int = 4 * 1024 * 1024
    wait_ms: int = 0
    invisible_ms: int = 60_000
    filter: str = "*"
    client_id: str = ""
    ordered: bool = False
    high_queue_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Messages handed out together: one queue, one attempt number, one deadline.

    The receipt handle of the message at queue offset `o` is `f"{token}:{o}"`; a run of messages
    may be settled as `f"{token}:{first}-{last}"`, ends included.
    """

    token: str
    attempt: int
    invisible_until_ms: int
    block: MessageBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveResult:
    """Leases handed out, empty when nothing came; and queues held back by an ordered lease."""

    leases: tuple[Lease, ...]
    blocked: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleResult:
    """What became of one handle; `handle` is the new one where an extension made it."""

    outcome: Settled
    handle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    """Every message of the queue below `queue_offset` is done for the group."""

    topic: str
    queue: int
    queue_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRange:
    """What readers may see of a queue: offsets from `min_offset` up to, not with, `max_offset`."""

    topic: str
    queue: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProgress:
    """How far a group is in one queue. `committed` <= `delivered` <= `max_offset`.

    `ready` messages are with nobody: never handed out, given back, or out for too long.
    """

    group: str
    topic: str
    queue: int
    committed: int
    delivered: int
    in_flight: int
    max_offset: int
    ready: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSeen:
    """A client of a group, and when it received first and last since the broker started.

    `topics` are those it asked for, in order of their names. Times are wall times; one that
    `is_waiting` has a receive parked in the broker, and so is seen now.
    """

    group: str
    client_id: str
    topics: tuple[str, ...]
    first_seen_ms: int
    last_seen_ms: int
    is_waiting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What opening the store found and did."""

    epoch: int
    clean: bool
    scanned_bytes: int
    scanned_records: int
    cut_bytes: int
    """Length of the torn tail that was cut; 0 after a clean stop."""
    cut_reason: str
    log_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """One reading of the engine's counters, for the console, health and metrics."""

    store_id: str
    epoch: int
    log_start: int
    written_offset: int
    synced_offset: int
    appended_messages: int
    appended_bytes: int
    delivered_messages: int
    settled_messages: int
    parked: int
    leases: int
    syncs: int
    free_bytes: int
    recovery: RecoveryReport
