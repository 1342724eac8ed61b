"""Half messages and their ends: the sending side of transactions. Translates only."""

from apps.access.policy import Action, topic
from apps.doors.grpc import names, producing
from apps.doors.grpc.calls import Call, GrpcDoor
from apps.doors.grpc.checks import producer_group_of
from apps.doors.grpc.drafts import Draft
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.statuses import OK, Illegal
from apps.doors.http.calls import settled
from apps.engine.transactiontypes import Outcome
from apps.engine.types import AckMode, TopicSpec

_OUTCOMES = {pb.COMMIT: Outcome.COMMITTED, pb.ROLLBACK: Outcome.ROLLED_BACK}


async def begin(door: GrpcDoor, call: Call, spec: TopicSpec, draft: Draft) -> pb.SendResultEntry:
    """Store a message that nobody sees until its transaction is committed."""
    batch = producing.batch_of(spec.name, door.door.next_turn(spec), [draft], call.born_host())
    ack = door.door.settings.default_ack
    begun = await call.engine.begin_transaction(
        batch,
        producer_group=producer_group_of(spec.name),
        check_immunity_ms=draft.recovery_ms,
        ack=AckMode.ASYNC if ack is AckMode.ONEWAY else ack,
    )
    door.checks.mention(spec.name)
    return pb.SendResultEntry(
        status=OK, message_id=draft.message_id, transaction_id=begun.transaction_id
    )


async def end_transaction(_door: GrpcDoor, call: Call, request: pb.EndTransactionRequest) -> object:
    """Commit or roll back. No decision keeps the half message, to be asked about again."""
    name = names.writable_topic_of(request.topic, call.namespace)
    call.rights.require(topic(name), Action.PUB, Action.DECIDE)
    if not request.transaction_id:
        raise Illegal(pb.INVALID_TRANSACTION_ID, "the transaction's id is missing")
    outcome = _OUTCOMES.get(request.resolution)
    if outcome is not None:
        await _check_topic(call, request.transaction_id, name)
        await settled(call.engine.end_transaction(request.transaction_id, outcome))
    return pb.EndTransactionResponse(status=OK)


async def _check_topic(call: Call, transaction_id: str, name: str) -> None:
    """Raise Illegal for a transaction of another topic than the caller's right was asked about.

    An id says where the half message is. One that is not pending was decided, and to end it again
    changes nothing.
    """
    try:
        half_offset = int(transaction_id.partition(".")[0], 16)
    except ValueError:
        raise Illegal(pb.INVALID_TRANSACTION_ID, "this is the id of no transaction") from None
    for pending in await settled(call.engine.transactions(after=half_offset - 1, messages_max=1)):
        if pending.half_offset == half_offset and pending.topic != name:
            raise Illegal(pb.INVALID_TRANSACTION_ID, f"no transaction of topic {name} has this id")
