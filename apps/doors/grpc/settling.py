"""What a client says of messages it was handed: done, later again, never again. Translates only."""

from collections.abc import Sequence

from apps.access.policy import Action, group
from apps.doors.grpc import groups, names
from apps.doors.grpc.calls import Call, GrpcDoor
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.route import known_topic
from apps.doors.grpc.statuses import OK, Illegal
from apps.engine.limits import INVISIBLE_MS_MAX, INVISIBLE_MS_MIN
from apps.engine.types import Settled, SettleResult

_ENTRIES_MAX = 1_000
_DEAD_LETTER_LEVEL = -1
# Below this a push consumer did not mean what it wrote: Node's sends its seconds as milliseconds.
_RETRY_MS_MIN = 1_000
_PUSHED = frozenset({pb.PUSH_CONSUMER, pb.LITE_PUSH_CONSUMER})
_BAD_HANDLE = pb.Status(
    code=pb.INVALID_RECEIPT_HANDLE,
    message="the receipt handle is expired, superseded, or not of this group",
)


async def ack_message(_door: GrpcDoor, call: Call, request: pb.AckMessageRequest) -> object:
    """Settle messages for good; one entry each, in order."""
    group_name = _group_of(call, request.group, request.topic)
    if not 0 < len(request.entries) <= _ENTRIES_MAX:
        raise Illegal(pb.BAD_REQUEST, f"acknowledge 1 to {_ENTRIES_MAX} messages at once")
    results = await call.engine.ack(group_name, [entry.receipt_handle for entry in request.entries])
    entries = [
        pb.AckMessageResultEntry(
            message_id=entry.message_id,
            receipt_handle=entry.receipt_handle,
            status=OK if result.outcome is Settled.OK else _BAD_HANDLE,
        )
        for entry, result in zip(request.entries, results, strict=True)
    ]
    return pb.AckMessageResponse(status=_status_of(results), entries=entries)


async def change_invisible_duration(
    _door: GrpcDoor, call: Call, request: pb.ChangeInvisibleDurationRequest
) -> object:
    """Have a message come again later than it would; the old handle is void.

    From a push consumer that is a failure, unless it says that it puts the message off. The answer
    has a handle whatever becomes of it: clients take what they get for theirs.
    """
    group_name = _group_of(call, request.group, request.topic)
    asked_ms = groups.ms_of(request.invisible_duration)
    if not 0 <= asked_ms <= INVISIBLE_MS_MAX:
        raise Illegal(
            pb.ILLEGAL_INVISIBLE_TIME, f"the invisible time must be 0 to {INVISIBLE_MS_MAX} ms"
        )
    handle = request.receipt_handle
    if call.session.client_type in _PUSHED:
        has_delay = request.suspend or asked_ms >= _RETRY_MS_MIN
        (result,) = await call.engine.nack(
            group_name,
            [handle],
            delay_ms=asked_ms if has_delay else None,
            reason="the consumer failed",
            is_failure=not request.suspend,
        )
    else:
        (result,) = await call.engine.extend(
            group_name, [handle], invisible_ms=max(asked_ms, INVISIBLE_MS_MIN)
        )
    if result.outcome is not Settled.OK:
        return pb.ChangeInvisibleDurationResponse(status=_BAD_HANDLE)
    return pb.ChangeInvisibleDurationResponse(status=OK, receipt_handle=result.handle or handle)


async def forward_to_dead_letters(
    _door: GrpcDoor, call: Call, request: pb.ForwardMessageToDeadLetterQueueRequest
) -> object:
    """Make a message a dead letter of its group, which is done with it."""
    group_name = _group_of(call, request.group, request.topic)
    (result,) = await call.engine.nack(
        group_name,
        [request.receipt_handle],
        delay_level=_DEAD_LETTER_LEVEL,
        reason="the consumer gave up",
    )
    status = OK if result.outcome is Settled.OK else _BAD_HANDLE
    return pb.ForwardMessageToDeadLetterQueueResponse(status=status)


def _group_of(call: Call, asked: pb.Resource, topic: pb.Resource) -> str:
    """Return the group that settles something of a topic; raise Illegal, Denied, UnknownTopic."""
    name = names.group_of(asked, call.namespace)
    call.rights.require(group(name), Action.SUB)
    known_topic(call.engine.catalog, names.topic_of(topic, call.namespace))
    return name


def _status_of(results: Sequence[SettleResult]) -> pb.Status:
    """Return what the answer says of all: their own status, or that it differs."""
    good = sum(result.outcome is Settled.OK for result in results)
    if good == len(results):
        return OK
    if good == 0:
        return _BAD_HANDLE
    return pb.Status(code=pb.MULTIPLE_RESULTS, message="see the entries")
