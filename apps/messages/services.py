"""Messages that an operator sends, by the way of the data plane's sends: checks, limits, ids.

The engine must be in this process; elsewhere everything here raises Stopping.
"""

import base64
import json
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from django.conf import settings
from msgspec import UNSET

from apps.audit.services import recorded
from apps.bridge import engine as bridge
from apps.core.phrases import sentence
from apps.doors.http import reading, send, transactions
from apps.doors.http.app import create_door
from apps.doors.http.calls import Door
from apps.doors.http.careshapes import begin_transaction_decoder
from apps.doors.http.refusals import Refusal
from apps.doors.http.settings import DoorSettings
from apps.doors.http.shapes import SendResult, budget, send_decoder
from apps.engine.api import EngineAPI
from apps.engine.errors import EngineError, InvalidArgument
from apps.engine.limits import BATCH_MESSAGES_MAX
from apps.engine.transactiontypes import Begun
from apps.engine.types import AckMode

# Who is asked about a half message of an operator: nobody who could answer, so its page decides.
PRODUCER_GROUP = "operators"
_REQUEST_ID = b"console"
_NO_HOST = bytes(8)

_log = logging.getLogger("mqweb.messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to be sent. At most one of `queue` and `sharding_key`, and of the three delays.

    `deliver_at_ms` is a wall time; `delay_level` is RocketMQ's, from 1 on.
    """

    body: bytes
    tag: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    sharding_key: str | None = None
    queue: int | None = None
    delay_level: int | None = None
    delay_ms: int | None = None
    deliver_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of one message: where it is, until when it waits, or why it was not taken.

    `index` counts from 0. A delayed one has no offset.
    """

    index: int
    message_id: str | None = None
    queue: int | None = None
    queue_offset: int | None = None
    deliver_at: str | None = None
    recall_handle: str | None = None
    problem: str = ""


def produce(*, topic: str, drafts: Sequence[Draft], by: str) -> list[Sent]:
    """Send messages in one append, and return when they are on the disk; one result each.

    A message that is refused keeps no other from being sent. Raises InvalidArgument where all are
    refused for their form, UnknownTopic, NotPermitted, MessageTooLarge, BatchTooLarge,
    DelayTooLong, and Busy, after which they may be stored or not.
    """
    if not 1 <= len(drafts) <= BATCH_MESSAGES_MAX:
        raise InvalidArgument(
            sentence(
                "from 1 to %(batch_messages_max)s messages can be sent at once",
                batch_messages_max=BATCH_MESSAGES_MAX,
            )
        )
    data = _json({"messages": [_document(draft) for draft in drafts]})
    door = _door()
    if len(data) > door.settings.request_bytes_max:
        raise InvalidArgument(
            sentence(
                "the messages are longer than %(request_bytes_max)s bytes together",
                request_bytes_max=door.settings.request_bytes_max,
            )
        )

    async def stored(engine: EngineAPI) -> list[SendResult]:
        # The count of messages is kept by the loop's own thread.
        budget.renew()
        messages = reading.decode(send_decoder, data).messages
        sender = send.Sender(_NO_HOST, _REQUEST_ID)
        results, _ = await send.stored(
            door, engine, topic, messages, ack=AckMode.SYNC, sender=sender
        )
        return results

    with recorded(
        by=by,
        act="messages.produce",
        kind="topic",
        name=topic,
        before={"messages_to_send": len(drafts)},
    ) as entry:
        try:
            results = bridge.call_here(stored)
        except Refusal as refusal:
            raise _refused(refusal) from refusal
        sent = [_sent(result) for result in results]
        stored_count = sum(not one.problem for one in sent)
        entry.after = {"sent": stored_count, "refused": len(sent) - stored_count}
        if not stored_count:
            entry.refuse("invalid_argument", sent[0].problem)
    _log.warning(
        "messages_produced_by_operator",
        extra={
            "topic": topic,
            "count": stored_count,
            "refused": len(sent) - stored_count,
            "by": by,
        },
    )
    return sent


def begin(*, topic: str, draft: Draft, by: str) -> tuple[Begun, str]:
    """Store a message that nobody sees until its transaction is committed; return its id as well.

    Raises what `produce` raises.
    """
    data = _json({"message": _document(draft), "producer_group": PRODUCER_GROUP, "ack": "sync"})
    door = _door()

    def begun(engine: EngineAPI) -> Awaitable[tuple[Begun, str]]:
        budget.renew()
        body = reading.decode(begin_transaction_decoder, data)
        return transactions.begun_by(door, engine, topic, body, _NO_HOST)

    with recorded(by=by, act="transaction.begin", kind="topic", name=topic) as entry:
        try:
            found, message_id = bridge.call_here(begun)
        except Refusal as refusal:
            raise _refused(refusal) from refusal
        entry.after = {"transaction": found.transaction_id, "half_offset": found.half_offset}
    _log.warning(
        "transaction_begun_by_operator",
        extra={"topic": topic, "transaction_id": found.transaction_id, "by": by},
    )
    return found, message_id


@cache
def _door() -> Door:
    """Return what the data plane's own door has for its sends, with the same settings."""
    return create_door(
        DoorSettings(
            default_ack=AckMode(settings.MQWEB.ack), delay_ms_max=settings.MQWEB.delay_ms_max
        )
    )


def _document(draft: Draft) -> dict[str, object]:
    """Return a draft as a body of the data plane has it."""
    document: dict[str, object] = {
        "body_base64": base64.b64encode(draft.body).decode(),
        "tag": draft.tag,
        "keys": list(draft.keys),
        "properties": dict(draft.properties),
        "sharding_key": draft.sharding_key,
        "queue": draft.queue,
        "delay_level": draft.delay_level,
        "delay_ms": draft.delay_ms,
        "deliver_at": draft.deliver_at_ms,
    }
    return {name: value for name, value in document.items() if value is not None}


def _json(document: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(sentence("a text holds half a character")) from error


def _refused(refusal: Refusal) -> EngineError:
    """Return what the door refused, naming the field."""
    fields = [error["pointer"].rpartition("/")[2] for error in refusal.errors]
    where = ", ".join(fields).replace("_", " ")
    return InvalidArgument(f"{where}: {refusal}" if where else str(refusal))


def _sent(result: SendResult) -> Sent:
    if result.problem is not UNSET:
        return Sent(index=result.index, problem=result.problem.detail)
    return Sent(
        index=result.index,
        message_id=result.message_id or None,
        queue=None if result.queue is UNSET else result.queue,
        queue_offset=int(result.offset) if result.offset else None,
        deliver_at=result.deliver_at or None,
        recall_handle=result.recall_handle or None,
    )
