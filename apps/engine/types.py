"""Small frozen values that cross the engine's border. Knows no files, clock or door."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto
from typing import TYPE_CHECKING

from apps.engine.failuretypes import RetryPolicy
from apps.engine.retentiontypes import CompactionStatus, RetentionStatus

if TYPE_CHECKING:
    # Worker, beat and supervisor know these values too, and never hold an array.
    import numpy as np
    from numpy.typing import NDArray

PERM_WRITE = 2
PERM_READ = 4

# RocketMQ's own number of retries.
RETRY_MAX = 16


class AckMode(StrEnum):
    """What an acknowledged send has reached."""

    SYNC = "sync"
    """The covering fdatasync has returned."""
    ASYNC = "async"
    """The bytes are in the page cache."""
    ONEWAY = "oneway"
    """Nothing is promised."""


class RoomState(StrEnum):
    """Whether the disk has room for what clients send."""

    OK = "ok"
    LOW = "low"
    """Sends are taken; less than two segments are left above the reserve, or 5 % below the mark."""
    FULL = "full"
    """Sends are refused, or those that need another segment are; all else goes on."""


class TopicType(StrEnum):
    """Which kinds of message a topic takes."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    PRIORITY = "PRIORITY"
    """A queue's number is the priority of its messages: receives take the highest first."""
    LITE = "LITE"
    """A parent of lite topics: its messages name one, and none is in its own queues."""
    MIXED = "MIXED"


class LiteModel(StrEnum):
    """Whether several clients of a group may be subscribed to a lite topic; RocketMQ's names."""

    SHARED = "SHARED"
    EXCLUSIVE = "EXCLUSIVE"
    """The newest subscriber puts out the one before."""


class FilterType(StrEnum):
    """How the text of a filter is read."""

    TAG = "TAG"
    SQL92 = "SQL92"


class MessageModel(StrEnum):
    """Whether the members of a group share its messages, or each gets all of them."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class Strategy(StrEnum):
    """How queues are shared out among the members of a group; RocketMQ's names."""

    AVG = "AVG"
    AVG_BY_CIRCLE = "AVG_BY_CIRCLE"
    CONFIG = "CONFIG"
    MACHINE_ROOM = "MACHINE_ROOM"
    MACHINE_ROOM_NEARBY = "MACHINE_ROOM_NEARBY"
    CONSISTENT_HASH = "CONSISTENT_HASH"


class ConsumeFrom(StrEnum):
    """Where a group begins in a queue it has no progress in."""

    FIRST = "first"
    LAST = "last"
    TIMESTAMP = "timestamp"


class PullStatus(StrEnum):
    """The four answers of a pull, as RocketMQ names them."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


class Special(Flag):
    """What a batch asks for, besides being stored."""

    NOTHING = 0
    DELAY = auto()
    """Some record has a property of a delay."""
    TRANSACTION = auto()
    """Some record says that it is a half message."""
    SEQUENCE = auto()
    """Some record has a producer's sequence number."""


class Settled(StrEnum):
    """What became of one receipt handle."""

    OK = "ok"
    EXPIRED = "expired"
    INVALID = "invalid"


class Cleanup(StrEnum):
    """What becomes of a topic's old messages; RocketMQ's `cleanup.policy`."""

    DELETE = "delete"
    COMPACT = "compact"
    """The newest message of each key stays for ever; every message must have a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic as the catalog knows it."""

    name: str
    queue_count: int
    type: TopicType = TopicType.MIXED
    perm: int = PERM_READ | PERM_WRITE
    write_queue_count: int | None = None
    """Queues from this number on take no messages any more, or not yet; None is none of them."""
    retention_ms: int | None = None
    """Older messages are hidden, younger ones kept by age; None is as the store does."""
    cleanup: Cleanup = Cleanup.DELETE
    """Whether old messages go, or only those that a newer one of the same key has replaced."""
    lite_ttl_ms: int | None = None
    """Lite topics of this one are gone after so long without a new message; None is never."""

    @property
    def writable_count(self) -> int:
        """Return how many queues take messages, counted from queue 0 on."""
        if self.write_queue_count is None:
            return self.queue_count
        return min(self.write_queue_count, self.queue_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """What was decided about a group. A group nobody decided about has these defaults.

    `ordered` demands the queue's lock of whoever pulls or commits for the group. `strategy` None
    follows the members. `fixed` is CONFIG's list: queue numbers by topic by client id; `rooms` are
    those whose queues MACHINE_ROOM shares out; `inner` is what MACHINE_ROOM_NEARBY does in a room.
    `consume_from_ms` goes with TIMESTAMP, wall time. `retry_max` None is without limit where
    ordered, and 16 elsewhere. `access_lock_ms` None lets a new owner of a queue read at once;
    otherwise it waits until the old one has settled what it was delivered, up to this long.
    `retry_delays_ms` is the list of the policy CUSTOM, and of no other. `lite_model` is about
    clients that are subscribed to lite topics.
    """

    name: str
    enabled: bool = True
    ordered: bool = False
    strategy: Strategy | None = None
    fixed: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    rooms: tuple[str, ...] = ()
    inner: Strategy = Strategy.AVG
    consume_from: ConsumeFrom = ConsumeFrom.FIRST
    consume_from_ms: int | None = None
    retry_max: int | None = None
    access_lock_ms: int | None = None
    retry_policy: RetryPolicy = RetryPolicy.LEVELS
    retry_delays_ms: tuple[int, ...] = ()
    lite_model: LiteModel = LiteModel.SHARED

    @property
    def failures_max(self) -> int | None:
        """Return how many retries a message gets before it is a dead letter; None has no limit."""
        if self.retry_max is None and not self.ordered:
            return RETRY_MAX
        return self.retry_max


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSnapshot:
    """All topics and groups at one moment. `version` only grows; an older one is ignored."""

    version: int = 0
    topics: Mapping[str, TopicSpec] = field(default_factory=dict)
    groups: Mapping[str, GroupSpec] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class RecordBatch:
    """Records in the on-disk layout, unstamped, all of one topic and one queue.

    `payload` is written to while it is stamped and must not be used again after a send.
    `sizes` is int32[n], the length of each record, in order. `tag_hashes` is None for bytes from
    outside, and the engine checks every record; a caller that built the records with this codec
    gives int64[n], and they are taken as they are; it also says what is `special` about them.
    """

    topic: str
    queue: int
    payload: bytearray
    sizes: "NDArray[np.int32]"
    tag_hashes: "NDArray[np.int64] | None" = None
    special: Special = Special.NOTHING


# Not frozen: one is made for every send, and freezing a class triples what making one costs.
@dataclass(slots=True, kw_only=True)
class Appended:
    """Where a batch went: queue offsets from `queue_offset` on, records from `log_offset` on.

    A delayed batch is in no queue yet: its `queue_offset` is -1, `due_ms` says when each message
    is due, and `handles` are the recall handles of those with a delay of their own.

    `repeats` tells of the messages that were stored before, by their place in the batch, queue and
    queue offset, which is -1 for one that was delayed; the others, `count` of them, are where it
    says, `due_ms` and `handles` are theirs. Where all were stored before `count` is 0, queue and
    `queue_offset` are the first's, and `due_ms` and `handles` are what was told then, of each, or
    nothing where that is forgotten.
    """

    topic: str
    queue: int
    queue_offset: int
    count: int
    log_offset: int
    store_time_ms: int
    due_ms: tuple[int, ...] = ()
    handles: Sequence[str] = ()
    repeats: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_delayed(self) -> bool:
        """Say whether the batch waits for its time."""
        return self.queue_offset < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBlock:
    """Stamped records of one queue, in order, as they lie in the log.

    `payload` holds the records end to end; `sizes` is int32[n]. Queue offsets are in the records.
    """

    topic: str
    queue: int
    payload: bytes | bytearray | memoryview
    sizes: "NDArray[np.int32]"

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """Read a queue from an offset; wait up to `wait_ms` when there is nothing new.

    With a `group` the reader is its member `client_id`: a group that is ordered, or an `epoch`
    that is given, demands the queue's lock; a `generation` that is given demands that the queue is
    assigned to the client.
    """

    topic: str
    queue: int
    queue_offset: int
    messages_max: int = 32
    bytes_max: int = 4 * 1024 * 1024
    wait_ms: int = 0
    filter: str = "*"
    filter_type: FilterType = FilterType.TAG
    group: str = ""
    client_id: str = ""
    epoch: int | None = None
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PullResult:
    """The answer to a pull. `next_offset` is where to read on, whatever the status.

    `unreadable` counts the messages up to there that were damaged on the disk and are skipped.
    """

    status: PullStatus
    block: MessageBlock
    next_offset: int
    min_offset: int
    max_offset: int
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveRequest:
    """Hand out messages of a group for `invisible_ms`; wait up to `wait_ms` for the first.

    `high_queue_first` empties a topic's queues from the highest number down, so that a queue's
    number is a priority; topics of the type PRIORITY are always read so. Other queues take turns.

    One that `is_lite` names a parent alone, and is handed messages of the lite topics that
    `client_id` is subscribed to: of each in order, in their turns.
    """

    group: str
    topics: tuple[str, ...]
    messages_max: int = 32
    bytes_max: int = 4 * 1024 * 1024
    wait_ms: int = 0
    invisible_ms: int = 60_000
    filter: str = "*"
    filter_type: FilterType = FilterType.TAG
    client_id: str = ""
    ordered: bool = False
    high_queue_first: bool = False
    attempt_id: str = ""
    """Names an ordered receive: asked again by the same name, it is handed the same again."""
    software: str = ""
    """What the client says it is, for people; and where it asks from."""
    address: str = ""
    is_lite: bool = False


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
    """Leases handed out, empty when nothing came; and queues held back by an ordered lease.

    `has_more` says that the filter passed over as much as one receive may look at: there may be
    messages for it further on, and the next receive looks there.
    """

    leases: tuple[Lease, ...]
    blocked: tuple[tuple[str, int], ...] = ()
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleResult:
    """What became of one handle; `handle` is the new one where an extension made it."""

    outcome: Settled
    handle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    """Every message of the queue below `queue_offset` is done for the group.

    An `epoch` that is given must be that of the queue's lock.
    """

    topic: str
    queue: int
    queue_offset: int
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRange:
    """What readers may see of a queue: offsets from `min_offset` up to, not with, `max_offset`.

    In a compacted topic those below `covered` have gaps: `kept_messages` are left of them since the
    last round at `compacted_ms`, wall time. Both are None before the first, and elsewhere.
    """

    topic: str
    queue: int
    min_offset: int
    max_offset: int
    covered: int = 0
    kept_messages: int | None = None
    compacted_ms: int | None = None

    @property
    def held(self) -> int:
        """Return how many messages can be read."""
        if self.kept_messages is None:
            return self.max_offset - self.min_offset
        return self.kept_messages + self.max_offset - max(self.covered, self.min_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTotal:
    """A topic summed over its queues: messages ever sent, and offsets that can still be read.

    A parent is summed over its lite topics, whose `sent` begins at what they held when the store
    was opened: nobody knows of those that are gone.
    """

    sent: int
    held: int


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
    lost: int = 0
    """Messages that retention deleted before the group had settled them."""
    unreadable: int = 0
    """How many messages of the queue no group gets any more: they were damaged on the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostMessages:
    """Messages that cannot be read any more: queue offsets `first` to `last`, both included."""

    topic: str
    queue: int
    first: int
    last: int

    def __len__(self) -> int:
        """Return the number of messages."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRange:
    """Bytes of the log that are not what was written; they are kept, and never served.

    `is_gap` says that whole frames are in it, so that a walk through the log jumps over it; else
    it is bodies of records whose frame is otherwise whole. `is_complete` says that `lost` names
    everything that was in it. `is_accepted` says that a person knows that records of consumer
    state may be missing here, and lets the store open without them.
    """

    log_offset: int
    length_bytes: int
    reason: str
    found_ms: int = 0
    lost: tuple[LostMessages, ...] = ()
    is_gap: bool = False
    is_complete: bool = True
    is_accepted: bool = False

    @property
    def end(self) -> int:
        """Return the log offset behind it."""
        return self.log_offset + self.length_bytes


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
    software: str = ""
    """What the client says it is, such as `PYTHON 5.1.2`; empty where it says nothing."""
    address: str = ""
    """Where its last receive came from; empty where its door did not say."""


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
    rebalances: int = 0
    """Assignments that were made since the engine was opened."""
    disk_bytes: int = 0
    """The size of the disk; 0 where it is not known."""
    room: RoomState = RoomState.OK
    """Whether the disk has room for sends."""
    room_reason: str = ""
    """Why sends are refused; empty while they are taken."""
    sync_ms: int = 0
    """How long the sync under way has taken so far; 0 while none is."""
    pool_bytes: int = 0
    """The size of the pool that writes are gathered in; 0, the default, gathers none."""
    pooled_bytes: int = 0
    """What lies in the pool and nowhere else: a kill of the process loses it."""
    retention: RetentionStatus | None = None
    compaction: CompactionStatus | None = None
    """None where the engine that answers knows of none."""
    quarantine: tuple[QuarantinedRange, ...] = ()
    """What of the log is damaged, in log order; the first 100 places."""
    quarantined_ranges: int = 0
    unreadable_messages: int = 0
    """How many messages lie in damaged places, as far as that can be told."""
    damaged_queue_files: int = 0
    """Files of consume queues that are not what was written, and are not made again yet."""
    segment_bytes: int = 0
    """The length of one file of the log."""
    opened_ms: int = 0
    """When the engine was opened, wall time; 0 where it is not known."""
    queues_dispatched: int | None = None
    """All of the log below is in the queues; None where the engine that answers does not say."""
    index_dispatched: int | None = None
    """All of the log below was taken in by the index of keys."""
    index_waiting: int = 0
    """Records with keys that were taken in and are in no index file yet; a search writes them."""
    checkpoint_offset: int | None = None
    """A start after a kill dispatches the log from here on again."""
