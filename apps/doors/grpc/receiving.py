"""ReceiveMessage: hand out messages of a group, one frame each. Translates only.

A receive looks at all queues of its topic, whichever it names: clients that all name the same one
get everything all the same.
"""

import asyncio
from collections.abc import Awaitable, Callable

from apps.access.policy import Action, group, topic
from apps.doors.grpc import groups, lite, messages, names, telemetry
from apps.doors.grpc.calls import Call, GrpcDoor
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.route import known_topic
from apps.doors.grpc.statuses import OK, Illegal
from apps.doors.http.messages import TagFilter, records_of
from apps.engine.codec.record import Record
from apps.engine.types import Lease, ReceiveRequest, ReceiveResult

Send = Callable[[pb.ReceiveMessageResponse], Awaitable[None]]

MESSAGES_DEFAULT = 32
MESSAGES_MAX = 1_000
# Without renewals; RocketMQ's proxy's.
INVISIBLE_MS_MIN = 10_000
INVISIBLE_MS_MAX = 12 * 3_600_000
# A client that left is given a moment before others get what it was being handed.
AGAIN_MS = 1_000
_NOTHING = pb.Status(code=pb.MESSAGE_NOT_FOUND, message="no message came in time")


async def receive_message(
    door: GrpcDoor, call: Call, request: pb.ReceiveMessageRequest, send: Send
) -> None:
    """Hand out messages: a status, then each message, then when they were handed out."""
    asked, tag_filter = _request_of(door, call, request)
    result = await door.waits.on(call.rights, call.engine.receive(asked))
    handed_out, collisions = _messages_of(asked, tag_filter, result)
    left = {handle: None for handle, _, _ in handed_out}
    namespace = request.message_queue.topic.resource_namespace or call.namespace
    try:
        call.share.take(sum(len(lease.block.payload) for lease in result.leases))
        await send(pb.ReceiveMessageResponse(status=OK if handed_out else _NOTHING))
        for handle, record, lease in handed_out:
            message = messages.hand_out(
                messages.message_of(record, namespace),
                record,
                handle=handle,
                attempt=lease.attempt,
                invisible_ms=asked.invisible_ms,
            )
            await send(pb.ReceiveMessageResponse(message=message))
            del left[handle]
        if handed_out:
            stamp = messages.timestamp(door.door.clock.wall_ms())
            await send(pb.ReceiveMessageResponse(delivery_timestamp=stamp))
            if request.auto_renew:
                tokens = [lease.token for lease in result.leases]
                door.renewals.hold(call.session, asked.group, tokens)
    finally:
        # The call may be being cancelled; what it owes the group is done all the same.
        owed: list[Awaitable[object]] = []
        if collisions:
            # To the group these are filtered out, so settled.
            owed.append(call.engine.ack(asked.group, collisions))
        if left:
            owed.append(_give_back(call, asked, result, list(left)))
        if owed:
            # Where that fails they come again when their time is over.
            await asyncio.shield(asyncio.gather(*owed, return_exceptions=True))


def _request_of(
    door: GrpcDoor, call: Call, request: pb.ReceiveMessageRequest
) -> tuple[ReceiveRequest, TagFilter]:
    group_name = names.group_of(request.group, call.namespace)
    name = names.topic_of(request.message_queue.topic, call.namespace)
    call.rights.require(group(group_name), Action.SUB)
    call.rights.require(topic(name), Action.SUB)
    catalog = call.engine.catalog
    spec = known_topic(catalog, name)
    is_lite = lite.is_parent(spec)
    if call.session.client_type in lite.CLIENTS:
        lite.check_parent(spec)
    if request.batch_size < 0:
        raise Illegal(pb.BAD_REQUEST, "a batch has a size above zero")
    expression = request.filter_expression
    asked = ReceiveRequest(
        group=group_name,
        topics=(name,),
        messages_max=min(request.batch_size or MESSAGES_DEFAULT, MESSAGES_MAX),
        wait_ms=wait_ms_of(door, call, request),
        invisible_ms=_invisible_ms(door, request),
        filter=expression.expression or "*",
        filter_type=telemetry.filter_type_of(expression),
        client_id=call.client_id,
        # Lite topics are read in order whatever their group is.
        ordered=is_lite or groups.is_fifo(catalog, group_name, name),
        is_lite=is_lite,
        attempt_id=request.attempt_id,
        software=call.session.software,
        address=call.session.address,
    )
    return asked, TagFilter(asked.filter, asked.filter_type)


def wait_ms_of(
    door: GrpcDoor, call: Call, request: pb.ReceiveMessageRequest | pb.PullMessageRequest
) -> int:
    """Return how long to wait: as asked, not beyond ours, and answered before the deadline."""
    settings = door.settings
    wait_ms = settings.poll_ms_max
    if request.HasField("long_polling_timeout"):
        asked_ms = groups.ms_of(request.long_polling_timeout)
        if asked_ms < 0:
            raise Illegal(pb.ILLEGAL_POLLING_TIME, "a poll waits for no negative time")
        wait_ms = min(asked_ms, wait_ms)
    seconds_left = call.seconds_left()
    if seconds_left is not None:
        wait_ms = min(wait_ms, int(seconds_left * 1000) - settings.poll_margin_ms)
    return max(wait_ms, 0)


def _invisible_ms(door: GrpcDoor, request: pb.ReceiveMessageRequest) -> int:
    """Return for how long messages are hidden; raise Illegal.

    What is renewed while its client lives needs no time of the client's.
    """
    if request.auto_renew:
        return door.settings.invisible_ms
    invisible_ms = groups.ms_of(request.invisible_duration)
    if not INVISIBLE_MS_MIN <= invisible_ms <= INVISIBLE_MS_MAX:
        raise Illegal(
            pb.ILLEGAL_INVISIBLE_TIME,
            f"the invisible time must be {INVISIBLE_MS_MIN} to {INVISIBLE_MS_MAX} ms",
        )
    return invisible_ms


def _messages_of(
    asked: ReceiveRequest, tag_filter: TagFilter, result: ReceiveResult
) -> tuple[list[tuple[str, Record, Lease]], list[str]]:
    """Return the messages with their handles, and those that only share a tag's hash."""
    found: list[tuple[str, Record, Lease]] = []
    collisions: list[str] = []
    for lease in result.leases:
        # What comes again was matched before, and the retry topic has no filter.
        is_filtered = asked.is_lite or lease.block.topic in asked.topics
        for record in records_of(lease.block):
            handle = f"{lease.token}:{record.queue_offset}"
            if is_filtered and tag_filter.is_collision(record):
                collisions.append(handle)
            else:
                found.append((handle, record, lease))
    return found, collisions


async def _give_back(
    call: Call, asked: ReceiveRequest, result: ReceiveResult, handles: list[str]
) -> None:
    """Let others have what a client that left was not given any more.

    One that has named its receive may ask again until then, and is handed all of it once more.
    """
    if asked.ordered and asked.attempt_id:
        tokens = [lease.token for lease in result.leases]
        await call.engine.renew(asked.group, tokens, invisible_ms=AGAIN_MS)
    else:
        reason = "the receiver left"
        await call.engine.nack(asked.group, handles, delay_ms=AGAIN_MS, reason=reason)
