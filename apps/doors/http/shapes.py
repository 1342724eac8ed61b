"""The JSON documents of sending and receiving, field by field. Knows types and limits only."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from apps.engine import limits
from apps.engine.errors import BatchTooLarge
from apps.engine.types import AckMode, FilterType, PullStatus, RoomState, Settled

# A receive of the largest size can be settled handle by handle in one request.
HANDLES_MAX = limits.FETCH_MESSAGES_MAX
TOPICS_MAX = 64
REASON_CHARACTERS_MAX = 1024
# These are hashed character by character, while the event loop waits.
TAG_CHARACTERS_MAX = 1024
SHARDING_KEY_CHARACTERS_MAX = 1024
FILTER_CHARACTERS_MAX = limits.FILTER_CHARACTERS_MAX
# Generations and epochs are numbers of JSON, which readers take for floats.
FENCE_MAX = 2**53 - 1
# One above the last delay level means the last one, which the engine knows.
LEVEL_MAX = 999_999_999
# As far as RocketMQ's clients can count.
PRIORITY_MAX = 2**31 - 1
# JSON is built message by message, and the event loop waits; larger fetches are binary.
JSON_FETCH_MESSAGES_MAX = 1000

Long = Annotated[int, Meta(ge=0, le=2**63 - 1)]
OffsetText = Annotated[str, Meta(pattern="^[0-9]{1,19}$", description="A 64-bit number")]
Time = Annotated[
    int | str, Meta(description="RFC 3339 with a time zone, or milliseconds since 1970 UTC")
]
Fence = Annotated[int, Meta(ge=0, le=FENCE_MAX, description="A generation, or the epoch of a lock")]
Wait = Annotated[int, Meta(ge=0, le=limits.WAIT_MS_MAX)]
Invisible = Annotated[int, Meta(ge=limits.INVISIBLE_MS_MIN, le=limits.INVISIBLE_MS_MAX)]
Filter = Annotated[str, Meta(max_length=FILTER_CHARACTERS_MAX)]
Reason = Annotated[str, Meta(max_length=REASON_CHARACTERS_MAX)]
ClientId = Annotated[str, Meta(max_length=limits.CLIENT_ID_CHARACTERS_MAX)]
RetryDelay = Annotated[int, Meta(ge=0, le=limits.INVISIBLE_MS_MAX)]
RetryLevel = Annotated[int, Meta(ge=-1, le=LEVEL_MAX)]
ProducerId = Annotated[str, Meta(min_length=1, max_length=limits.CLIENT_ID_CHARACTERS_MAX)]
Handles = Annotated[list[str], Meta(min_length=1, max_length=HANDLES_MAX)]


class Request(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A document that comes in: an unknown field is a mistake to be told, not to be ignored."""


class MessageBudget:
    """How many messages the decoding under way may still make.

    A list's length is only checked when all of it is there, and 16 MiB of `{},{},` would be a
    gigabyte of messages by then. Decoding never yields to the event loop, so one budget is enough.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        """Begin with nothing; `renew` before each decoding."""
        self.left = 0

    def renew(self) -> None:
        """Allow the messages of one request."""
        self.left = limits.BATCH_MESSAGES_MAX


budget = MessageBudget()


class OutgoingMessage(Request, frozen=True, gc=False):
    """A message to send; `body` or `body_base64`.

    At most one of `sharding_key`, `queue` and `priority` chooses its queue. A `priority` is the
    queue of that number, or the highest one; topics of the type PRIORITY hand it out first.
    At most one of `delay_level`, `deliver_at` and `delay_ms` has it wait. A `producer_id` and a
    `producer_seq` together have it stored once, however often it is sent.
    """

    body: str | None = None
    body_base64: str | None = None
    tag: Annotated[str, Meta(max_length=TAG_CHARACTERS_MAX)] | None = None
    keys: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    sharding_key: Annotated[str, Meta(max_length=SHARDING_KEY_CHARACTERS_MAX)] | None = None
    queue: int | None = None
    priority: Annotated[int, Meta(ge=0, le=PRIORITY_MAX)] | None = None
    delay_level: Annotated[int, Meta(ge=1, le=LEVEL_MAX)] | None = None
    deliver_at: Time | None = None
    delay_ms: Long | None = None
    producer_id: ProducerId | None = None
    producer_seq: Long | None = None

    def __post_init__(self) -> None:
        """Raise BatchTooLarge when the request has more messages than it may."""
        budget.left -= 1
        if budget.left < 0:
            raise BatchTooLarge(f"more than {limits.BATCH_MESSAGES_MAX} messages in a request")


class SendRequest(Request, frozen=True, gc=False):
    """Messages to send; how many there may be is checked while they are decoded."""

    messages: Annotated[
        list[OutgoingMessage], Meta(min_length=1, max_length=limits.BATCH_MESSAGES_MAX)
    ]
    ack: AckMode | None = None


class Problem(Struct, frozen=True, gc=False):
    """An RFC 9457 problem document."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retriable: bool
    request_id: str
    errors: list[dict[str, str]]


class SendResult(Struct, frozen=True, gc=False):
    """Where one message was stored (201), or why it was not: its own status and `problem`.

    A delayed one has a null `offset` until it is due, at `deliver_at`; its `recall_handle` is null
    for a delay level. A `repeat` (200) was stored before, where it says; its first id and store
    time are not known any more.
    """

    index: int
    status: int
    message_id: str | UnsetType | None = UNSET
    queue: int | UnsetType = UNSET
    offset: str | UnsetType | None = UNSET
    store_time: str | UnsetType | None = UNSET
    recall_handle: str | UnsetType | None = UNSET
    deliver_at: str | UnsetType = UNSET
    repeat: bool | UnsetType = UNSET
    problem: Problem | UnsetType = UNSET


class SendAnswer(Struct, frozen=True, gc=False):
    """One result a message, in the request's order."""

    results: list[SendResult]


class BatchAnswer(Struct, frozen=True, gc=False):
    """Where a binary batch was stored: `count` messages from queue offset `offset` on.

    A delayed batch has a null `offset`; `deliver_at` is when each message is due, in order, and
    `recall_handles` are those of the messages with a delay of their own. A `repeat` was stored
    before, where it says.
    """

    queue: int
    offset: str | None
    count: int
    store_time: str
    deliver_at: list[str] | UnsetType = UNSET
    recall_handles: list[str] | UnsetType = UNSET
    repeat: bool | UnsetType = UNSET


class AttemptItem(Struct, frozen=True, gc=False):
    """One failed attempt at a message, counted from 1; `at` is null for what is no time."""

    number: int
    at: str | None
    reason: str
    client_id: str


class IncomingMessage(Struct, frozen=True, gc=False):
    """A message in an answer; the body as text where it is UTF-8, else in base64.

    `topic`, `queue` and `offset` are where it was read. One that was tried again, or given up, has
    its first topic in `origin_topic`, and its last failed `attempts`, oldest first.
    """

    message_id: str
    topic: str
    queue: int
    offset: str
    tag: str | None
    keys: list[str]
    properties: dict[str, str]
    sharding_key: str | None
    born_time: str | None
    store_time: str
    reconsume_times: int
    body: str | UnsetType = UNSET
    body_base64: str | UnsetType = UNSET
    origin_topic: str | UnsetType = UNSET
    origin_message_id: str | UnsetType = UNSET
    attempts: list[AttemptItem] | UnsetType = UNSET
    receipt_handle: str | UnsetType = UNSET
    delivery_attempt: int | UnsetType = UNSET
    invisible_until: str | UnsetType = UNSET


class PullAnswer(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a pull found; read on at `next_offset`, whatever the status.

    `unreadable` is there where messages up to `next_offset` were damaged on the disk and are
    skipped: how many.
    """

    status: PullStatus
    messages: list[IncomingMessage]
    next_offset: str
    min_offset: str
    max_offset: str
    unreadable: int = 0


class SearchAnswer(Struct, frozen=True, gc=False):
    """What a search found, the newest message first.

    `truncated`: there is more of it. `scan_incomplete`: the search ended before it had looked
    everywhere, and what it did not see is not there. The same request with the cursor goes on where
    this one ended; null where nothing is left, or a narrower search is needed.
    """

    items: list[IncomingMessage]
    truncated: bool
    scan_incomplete: bool
    next_cursor: str | None


class ReceiveBody(Request, frozen=True, gc=False):
    """What to hand out to a member of a group; `topic` or `topics`.

    `high_queue_first` empties a topic's queues from the highest number down; otherwise queues
    take turns.
    """

    topic: str | None = None
    topics: Annotated[list[str], Meta(min_length=1, max_length=TOPICS_MAX)] | None = None
    max: Annotated[int, Meta(ge=1, le=limits.FETCH_MESSAGES_MAX)] = 32
    wait_ms: Wait = 0
    invisible_ms: Invisible = 60_000
    filter: Filter = "*"
    filter_type: FilterType = FilterType.TAG
    client_id: ClientId = ""
    ordered: bool = False
    high_queue_first: bool = False


class QueueItem(Request, frozen=True, gc=False):
    """A queue by topic and number."""

    topic: str
    queue: Annotated[int, Meta(ge=0)]


class ReceiveAnswer(Struct, frozen=True, gc=False):
    """Messages handed out, each with its handle; and the queues that were passed over.

    These are held back by an ordered lease, or locked by another client: by number where one topic
    was asked for, else by topic and number.
    """

    messages: list[IncomingMessage]
    blocked_by_lock: list[int | QueueItem]


class AckRequest(Request, frozen=True, gc=False):
    """Handles to settle for good; a handle may name a run, `token:first-last`.

    With an `epoch`, here and below, each must be of a queue whose lock has it.
    """

    receipt_handles: Handles
    epoch: Fence | None = None


class NackRequest(Request, frozen=True, gc=False):
    """Handles of messages to give back, visible again after `delay_ms` or that of `delay_level`.

    Without both, or at level 0, the group's retry policy says when; level -1 makes them dead
    letters at once.
    """

    receipt_handles: Handles
    delay_ms: RetryDelay | None = None
    delay_level: RetryLevel | None = None
    reason: Reason = ""
    epoch: Fence | None = None


class ExtendRequest(Request, frozen=True, gc=False):
    """Handles of messages to hide for `invisible_ms` from here on."""

    receipt_handles: Handles
    invisible_ms: Invisible = 60_000
    epoch: Fence | None = None


class SettleItem(Struct, frozen=True, gc=False):
    """What became of one handle; `receipt_handle` is the one to use from here on."""

    index: int
    status: Settled
    receipt_handle: str | UnsetType = UNSET
    problem: Problem | UnsetType = UNSET


class SettleAnswer(Struct, frozen=True, gc=False):
    """One result a handle, in the request's order."""

    results: list[SettleItem]


class EmptyBody(Request, frozen=True, gc=False):
    """A document without fields; it may be left out."""


class Health(Struct, frozen=True, gc=False):
    """What a probe is told."""

    status: Literal["alive", "ready"]
    room: RoomState | UnsetType = UNSET
    """Whether the disk has room for sends; said by readiness."""


send_decoder = msgspec.json.Decoder(SendRequest)
receive_decoder = msgspec.json.Decoder(ReceiveBody)
ack_decoder = msgspec.json.Decoder(AckRequest)
nack_decoder = msgspec.json.Decoder(NackRequest)
extend_decoder = msgspec.json.Decoder(ExtendRequest)
empty_decoder = msgspec.json.Decoder(EmptyBody)
