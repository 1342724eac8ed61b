"""Half messages, what becomes of them, and the checks that ask. Translates only.

POST /topics/{topic}/transactions, /transactions/{id}:commit and :rollback, and
/producer-groups/{group}/checks:receive.
"""

import numpy as np

from apps.access.policy import Action, group, topic
from apps.doors.http import answers, drafts, messages, places, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door, settled
from apps.doors.http.careshapes import (
    BeginTransactionBody,
    BegunAnswer,
    CheckItem,
    ChecksAnswer,
    EndedAnswer,
    begin_transaction_decoder,
    checks_decoder,
)
from apps.doors.http.refusals import invalid
from apps.doors.http.rights import EVERYTHING
from apps.doors.http.shapes import OutgoingMessage, budget, empty_decoder
from apps.doors.http.times import rfc3339
from apps.engine.api import EngineAPI
from apps.engine.codec.record import encode_record
from apps.engine.codec.tags import tag_hash
from apps.engine.errors import MessageIllegal, UnknownTransaction
from apps.engine.transactiontypes import Begun, Check, Outcome
from apps.engine.types import AckMode, RecordBatch


async def begin(door: Door, call: Call) -> Answer:
    """Store a message that nobody sees until its transaction is committed."""
    reading.require_json(call)
    data = await reading.body_of(call, door.settings.request_bytes_max)
    budget.renew()
    body = reading.decode(begin_transaction_decoder, data)
    producer_group = places.group_at(body.producer_group, "/producer_group")
    call.rights.require(group(producer_group), Action.PUB)
    begun, message_id = await begun_by(door, call.engine, call.name, body, call.born_host())
    answer = BegunAnswer(begun.transaction_id, message_id, rfc3339(begun.store_time_ms))
    return answers.json(201, answer)


async def begun_by(
    door: Door, engine: EngineAPI, name: str, body: BeginTransactionBody, born_host: bytes
) -> tuple[Begun, str]:
    """Store a half message; return what the engine says of it, and its message id.

    Raises Refusal for a name or a delay that cannot be, what a send refuses, and what the engine
    raises.
    """
    producer_group = places.group_at(body.producer_group, "/producer_group")
    ack = _ack_of(door, body)
    batch, message_id = _batch_of(door, engine, name, body.message, born_host)
    begun = await engine.begin_transaction(
        batch,
        producer_group=producer_group,
        check_immunity_ms=body.check_immunity_ms,
        ack=ack,
    )
    return begun, message_id


def _ack_of(door: Door, body: BeginTransactionBody) -> AckMode:
    """Return what the answer waits for: a transaction that may be lost cannot be decided."""
    if body.ack is AckMode.ONEWAY:
        raise invalid("/ack", "a transaction is answered, so its ack is sync or async")
    ack = body.ack or door.settings.default_ack
    return AckMode.ASYNC if ack is AckMode.ONEWAY else ack


def _batch_of(
    door: Door, engine: EngineAPI, name: str, message: OutgoingMessage, born_host: bytes
) -> tuple[RecordBatch, str]:
    """Return the message as a batch of one record, and its id. Raises what a send refuses."""
    if drafts.is_delayed(message):
        pointer = f"/message/{drafts.delay_field(message)}"
        raise invalid(pointer, "a message of a transaction has no delay")
    topic = places.plain_topic(engine.catalog, name)
    if places.lite_name(name):
        raise MessageIllegal("a lite topic takes no messages of transactions")
    now_ms = door.clock.wall_ms()
    queue = drafts.queue_for(message, topic.writable_count)
    content = drafts.body_of(message, door.settings)
    message_id = door.message_ids.new(wall_ms=now_ms)
    properties = drafts.properties_of(message, message_id, door.settings)
    if queue is None:
        queue = door.next_turn(topic)
    record = encode_record(
        topic=topic.name.encode(),
        queue=queue,
        body=content,
        properties=properties,
        born_time_ms=now_ms,
        born_host=born_host,
    )
    batch = RecordBatch(
        topic=topic.name,
        queue=queue,
        payload=bytearray(record),
        sizes=np.array([len(record)], dtype=np.int32),
        tag_hashes=np.array([tag_hash(message.tag or "")], dtype=np.int64),
    )
    return batch, message_id


async def commit(_door: Door, call: Call) -> Answer:
    """Let everybody see the message of a transaction."""
    return await _ended(call, Outcome.COMMITTED)


async def roll_back(_door: Door, call: Call) -> Answer:
    """Drop the message of a transaction."""
    return await _ended(call, Outcome.ROLLED_BACK)


async def _ended(call: Call, outcome: Outcome) -> Answer:
    await reading.nothing_of(call, empty_decoder)
    if not call.token:
        raise UnknownTransaction("this is the id of no transaction")
    if call.rights is not EVERYTHING:
        await _require(call)
    ended = await settled(call.engine.end_transaction(call.token, outcome))
    if ended.topic:
        call.rights.require(topic(ended.topic), Action.PUB, Action.DECIDE)
    offset = ended.queue_offset
    return answers.json(
        200,
        EndedAnswer(
            transaction_id=ended.transaction_id,
            outcome=ended.outcome,
            topic=ended.topic or None,
            queue=ended.queue,
            offset=None if offset is None else str(offset),
            repeat=ended.is_repeat,
        ),
    )


async def _require(call: Call) -> None:
    """Raise Denied unless the caller may send to the topic of the transaction, or decide for it.

    An id says where the half message is. One that is not pending was decided, and to end it again
    changes nothing; or it is none yet, and cannot become one on the way from here to the engine:
    nothing is waited for where no later one is pending either.
    """
    half_offset = _half_offset(call.token)
    for pending in await settled(call.engine.transactions(after=half_offset - 1, messages_max=1)):
        if pending.half_offset == half_offset:
            call.rights.require(topic(pending.topic), Action.PUB, Action.DECIDE)


def _half_offset(transaction_id: str) -> int:
    try:
        return int(transaction_id.partition(".")[0], 16)
    except ValueError:
        raise UnknownTransaction("this is the id of no transaction") from None


async def receive_checks(door: Door, call: Call) -> Answer:
    """Hand out messages to be decided; wait for them, or until the client leaves.

    The engine counts a check when it hands it out: a client that leaves while it waits is
    cancelled there, and nothing is counted.
    """
    body = await reading.json_of(call, checks_decoder, door.settings.request_bytes_max)
    work = call.engine.receive_checks(
        call.name, client_id=body.client_id, checks_max=body.max, wait_ms=body.wait_ms
    )
    found = await (reading.unless_gone(work, call) if body.wait_ms else work)
    return answers.json(200, ChecksAnswer([_item(check) for check in found]))


def _item(check: Check) -> CheckItem:
    (record,) = messages.records_of(check.block)
    return CheckItem(
        check.transaction_id, check.number, check.checks_max, messages.message_of(record)
    )
