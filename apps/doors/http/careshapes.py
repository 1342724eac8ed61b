"""The JSON documents of failures, transactions and recalls, field by field. Knows types and limits.

Those of a nack are with the other handles in `shapes`.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from apps.doors.http.groupshapes import Holder, Offset
from apps.doors.http.shapes import (
    ClientId,
    Fence,
    IncomingMessage,
    OutgoingMessage,
    Reason,
    Request,
    RetryDelay,
    RetryLevel,
    Wait,
)
from apps.engine import limits
from apps.engine.delaytypes import Recall
from apps.engine.failuretypes import Returned
from apps.engine.transactiontypes import Outcome
from apps.engine.types import AckMode

# A heap of checks is handed out while the event loop waits, a message's body each.
CHECKS_MAX = 100


class FailedItem(Request, frozen=True, gc=False):
    """A message its reader failed at. An `epoch` that is given must be that of the queue's lock."""

    topic: str
    queue: Annotated[int, Meta(ge=0)]
    offset: Offset
    epoch: Fence | None = None


class SendBackBody(Request, frozen=True, gc=False):
    """Messages to be tried again after `delay_ms` or that of `delay_level`.

    Without both, or at level 0, the group's retry policy says when; level -1 makes them dead
    letters at once. With a `generation` every queue must be assigned to `client_id`.
    """

    messages: Annotated[list[FailedItem], Meta(min_length=1, max_length=limits.CARE_MESSAGES_MAX)]
    client_id: ClientId = ""
    generation: Fence | None = None
    delay_ms: RetryDelay | None = None
    delay_level: RetryLevel | None = None
    reason: Reason = ""


class SendBackItem(Struct, frozen=True, gc=False):
    """What became of one message: 200, or 410 where its queue does not hold it.

    `deliver_at` is when it comes again, null where it does not or did so before.
    """

    index: int
    status: int
    outcome: Returned
    deliver_at: str | None


class SendBackAnswer(Struct, frozen=True, gc=False):
    """One result a message, in the request's order."""

    results: list[SendBackItem]


class BeginTransactionBody(Request, frozen=True, gc=False):
    """A message that nobody sees before its transaction is committed.

    Where that is not decided in time, the clients of `producer_group` are asked: first after
    `check_immunity_ms`, or after the broker's own time where that is left out.
    """

    message: OutgoingMessage
    producer_group: str
    check_immunity_ms: Fence | None = None
    ack: AckMode | None = None


class BegunAnswer(Struct, frozen=True, gc=False):
    """A transaction that is to be committed or rolled back."""

    transaction_id: str
    message_id: str
    store_time: str


class EndedAnswer(Struct, frozen=True, gc=False):
    """A decided transaction, and where a committed message is, as far as that is known.

    A `repeat` had been decided so before.
    """

    transaction_id: str
    outcome: Outcome
    topic: str | None
    queue: int | None
    offset: str | None
    repeat: bool


class ChecksBody(Request, frozen=True, gc=False):
    """A producer that can say what became of its transactions; waits up to `wait_ms` for one."""

    client_id: Holder
    max: Annotated[int, Meta(ge=1, le=CHECKS_MAX)] = 32
    wait_ms: Wait = 0


class CheckItem(Struct, frozen=True, gc=False):
    """A message to be decided: it was asked about `number` times of at most `checks_max`."""

    transaction_id: str
    number: int
    checks_max: int
    message: IncomingMessage


class ChecksAnswer(Struct, frozen=True, gc=False):
    """Messages to be decided; none when nothing came."""

    checks: list[CheckItem]


class RecallAnswer(Struct, frozen=True, gc=False):
    """What became of a delayed message."""

    outcome: Recall


send_back_decoder = msgspec.json.Decoder(SendBackBody)
begin_transaction_decoder = msgspec.json.Decoder(BeginTransactionBody)
checks_decoder = msgspec.json.Decoder(ChecksBody)
