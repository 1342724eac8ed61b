"""The JSON documents of members, locks and offsets, field by field. Knows types and limits only."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from apps.doors.http.shapes import (
    TOPICS_MAX,
    ClientId,
    Fence,
    Filter,
    Long,
    OffsetText,
    QueueItem,
    Reason,
    Request,
    Time,
    Wait,
)
from apps.engine import limits
from apps.engine.types import ConsumeFrom, FilterType, MessageModel, Strategy

# All queues of the largest topic in one request; whoever has more asks again.
QUEUES_MAX = limits.QUEUE_COUNT_MAX
SITE_CHARACTERS_MAX = limits.NAME_CHARACTERS_MAX

Offset = OffsetText | Long
Holder = Annotated[str, Meta(min_length=1, max_length=limits.CLIENT_ID_CHARACTERS_MAX)]
Queues = Annotated[list[QueueItem], Meta(min_length=1, max_length=QUEUES_MAX)]


class SubscriptionItem(Request, frozen=True, gc=False):
    """What a member wants of a topic."""

    topic: str
    filter: Filter = "*"
    filter_type: FilterType = FilterType.TAG


class BlockedItem(Request, frozen=True, gc=False):
    """A queue its member cannot get on with: the message at `offset` failed `attempts` times."""

    topic: str
    queue: Annotated[int, Meta(ge=0)]
    offset: Offset
    attempts: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    reason: Reason = ""


class HeartbeatBody(Request, frozen=True, gc=False):
    """What a member wants and what it knows; `generation` is the one last answered.

    The answer waits up to `wait_ms` while that is the group's generation. `site` is the member's
    room; a `strategy` is a wish, and what was decided about the group goes before it.
    """

    subscriptions: Annotated[list[SubscriptionItem], Meta(max_length=TOPICS_MAX)]
    model: MessageModel = MessageModel.CLUSTERING
    ordered: bool = False
    strategy: Strategy | None = None
    site: Annotated[str, Meta(max_length=SITE_CHARACTERS_MAX)] = ""
    generation: Fence = 0
    wait_ms: Wait = 0
    blocked: Annotated[list[BlockedItem], Meta(max_length=QUEUES_MAX)] = []


class HeartbeatAnswer(Struct, frozen=True, gc=False):
    """The member's queues by topic; it must ask again within `heartbeat_ms`.

    `retry_max` is how often the group has a message tried again; null where that is not decided.
    """

    generation: int
    assignment: dict[str, list[int]]
    heartbeat_ms: int
    retry_max: int | None


class LocksBody(Request, frozen=True, gc=False):
    """Queues whose locks a client takes or renews."""

    client_id: Holder
    queues: Queues


class HeldItem(QueueItem, frozen=True, gc=False):
    """A queue whose lock is given back; with an `epoch`, that possession only."""

    epoch: Fence | None = None


class ReleaseBody(Request, frozen=True, gc=False):
    """Queues whose locks a client gives back."""

    client_id: Holder
    queues: Annotated[list[HeldItem], Meta(min_length=1, max_length=QUEUES_MAX)]


class LockedItem(Struct, frozen=True, gc=False):
    """A lock that is the caller's for so long from the answer on."""

    topic: str
    queue: int
    epoch: int
    expires_in_ms: int


class RefusedItem(Struct, frozen=True, gc=False):
    """A lock that is another's: its holder, or the client the queue is assigned to."""

    topic: str
    queue: int
    owner: str


class LocksAnswer(Struct, frozen=True, gc=False):
    """What became of each lock that was asked for."""

    locked: list[LockedItem]
    refused: list[RefusedItem]


class CommitItem(Request, frozen=True, gc=False):
    """Every message of the queue below `offset` is done for the group.

    An `epoch` that is given must be that of the queue's lock.
    """

    topic: str
    queue: Annotated[int, Meta(ge=0)]
    offset: Offset
    epoch: Fence | None = None


class CommitRequest(Request, frozen=True, gc=False):
    """Progress of a group, all of it or nothing.

    With a `generation` every queue must be assigned to `client_id`.
    """

    offsets: Annotated[list[CommitItem], Meta(min_length=1, max_length=QUEUES_MAX)]
    client_id: ClientId = ""
    generation: Fence | None = None


class BeginBody(Request, frozen=True, gc=False):
    """Queues a group goes on in; where it has no progress it begins as `consume_from` says.

    What was decided about the group goes before that. `consume_from_time` goes with `timestamp`.
    `client_id` says who asks; the answer is the same for everybody.
    """

    queues: Queues
    client_id: ClientId = ""
    consume_from: ConsumeFrom | None = None
    consume_from_time: Time | None = None


class BeginItem(Struct, frozen=True, gc=False):
    """Where the group goes on in a queue. `is_new` says that it begins there with this answer."""

    topic: str
    queue: int
    offset: str
    is_new: bool


class BeginAnswer(Struct, frozen=True, gc=False):
    """One offset a queue, in the request's order."""

    offsets: list[BeginItem]


class OffsetAtAnswer(Struct, frozen=True, gc=False):
    """The first message stored at or after a time; the end of the queue when there is none."""

    topic: str
    queue: int
    offset: str


heartbeat_decoder = msgspec.json.Decoder(HeartbeatBody)
locks_decoder = msgspec.json.Decoder(LocksBody)
release_decoder = msgspec.json.Decoder(ReleaseBody)
commit_decoder = msgspec.json.Decoder(CommitRequest)
begin_decoder = msgspec.json.Decoder(BeginBody)
