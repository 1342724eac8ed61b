"""PullMessage and the calls about offsets: read queues at a place of one's own. Translates only.

No client of RocketMQ's calls these yet; programs that speak the protocol themselves may.
"""

from collections.abc import Awaitable, Callable

from apps.access.policy import Action, group, topic
from apps.doors.grpc import messages, names, telemetry
from apps.doors.grpc.calls import Call, GrpcDoor
from apps.doors.grpc.drafts import time_ms
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.receiving import MESSAGES_DEFAULT, MESSAGES_MAX, wait_ms_of
from apps.doors.grpc.route import known_topic
from apps.doors.grpc.statuses import OK, Illegal
from apps.doors.http.messages import TagFilter, records_of
from apps.engine.errors import UnknownQueue
from apps.engine.types import OffsetCommit, PullRequest, PullStatus, QueueRange

Send = Callable[[pb.PullMessageResponse], Awaitable[None]]

_NOTHING = pb.Status(code=pb.MESSAGE_NOT_FOUND, message="no message came in time")
_NO_OFFSET = pb.Status(code=pb.OFFSET_NOT_FOUND, message="the group has not begun in this queue")


async def pull_message(
    door: GrpcDoor, call: Call, request: pb.PullMessageRequest, send: Send
) -> None:
    """Read a queue: a status, then each message, then where to read on."""
    group_name, name, queue = _place_of(call, request.group, request.message_queue)
    if request.offset < 0:
        raise Illegal(pb.ILLEGAL_OFFSET, "an offset is 0 or more")
    if request.batch_size < 0:
        raise Illegal(pb.BAD_REQUEST, "a batch has a size above zero")
    expression = request.filter_expression
    asked = PullRequest(
        topic=name,
        queue=queue,
        queue_offset=request.offset,
        messages_max=min(request.batch_size or MESSAGES_DEFAULT, MESSAGES_MAX),
        wait_ms=wait_ms_of(door, call, request),
        filter=expression.expression or "*",
        filter_type=telemetry.filter_type_of(expression),
        group=group_name,
        client_id=call.client_id,
    )
    result = await door.waits.on(call.rights, call.engine.pull(asked))
    call.share.take(len(result.block.payload))
    if result.status is PullStatus.OFFSET_ILLEGAL:
        status = pb.Status(
            code=pb.ILLEGAL_OFFSET,
            message=f"the queue has offsets {result.min_offset} to {result.max_offset}",
        )
        await send(pb.PullMessageResponse(status=status))
        await send(pb.PullMessageResponse(next_offset=result.next_offset))
        return
    shown = TagFilter(asked.filter, asked.filter_type)
    found = [record for record in records_of(result.block) if not shown.is_collision(record)]
    await send(pb.PullMessageResponse(status=OK if found else _NOTHING))
    namespace = request.message_queue.topic.resource_namespace or call.namespace
    for record in found:
        await send(pb.PullMessageResponse(message=messages.message_of(record, namespace)))
    await send(pb.PullMessageResponse(next_offset=result.next_offset))


async def update_offset(_door: GrpcDoor, call: Call, request: pb.UpdateOffsetRequest) -> object:
    """Set where a group goes on in a queue, forth or back."""
    group_name, name, queue = _place_of(call, request.group, request.message_queue)
    if request.offset < 0:
        raise Illegal(pb.ILLEGAL_OFFSET, "an offset is 0 or more")
    commit = OffsetCommit(topic=name, queue=queue, queue_offset=request.offset)
    await call.engine.commit_offsets(group_name, [commit])
    return pb.UpdateOffsetResponse(status=OK)


async def get_offset(_door: GrpcDoor, call: Call, request: pb.GetOffsetRequest) -> object:
    """Return where a group goes on in a queue."""
    group_name, name, queue = _place_of(call, request.group, request.message_queue)
    _range_of(call, name, queue)
    for row in call.engine.group_progress(group_name):
        if (row.topic, row.queue) == (name, queue):
            return pb.GetOffsetResponse(status=OK, offset=row.committed)
    return pb.GetOffsetResponse(status=_NO_OFFSET)


async def query_offset(_door: GrpcDoor, call: Call, request: pb.QueryOffsetRequest) -> object:
    """Return the first offset of a queue, the one behind its last, or the first at a time."""
    name = names.topic_of(request.message_queue.topic, call.namespace)
    call.rights.require(topic(name), Action.GET)
    known_topic(call.engine.catalog, name)
    held = _range_of(call, name, request.message_queue.id)
    if request.query_offset_policy == pb.TIMESTAMP:
        if not request.HasField("timestamp"):
            raise Illegal(pb.BAD_REQUEST, "the timestamp is missing")
        moment_ms = max(time_ms(request.timestamp), 0)
        return pb.QueryOffsetResponse(
            status=OK, offset=await call.engine.offset_at(name, held.queue, moment_ms)
        )
    if request.query_offset_policy == pb.END:
        return pb.QueryOffsetResponse(status=OK, offset=held.max_offset)
    if request.query_offset_policy == pb.BEGINNING:
        return pb.QueryOffsetResponse(status=OK, offset=held.min_offset)
    raise Illegal(pb.BAD_REQUEST, "the policy of the query is unknown")


def _place_of(
    call: Call, asked: pb.Resource, message_queue: pb.MessageQueue
) -> tuple[str, str, int]:
    """Return group, topic and queue number of a reader; raise Illegal, Denied, UnknownTopic."""
    group_name = names.group_of(asked, call.namespace)
    name = names.topic_of(message_queue.topic, call.namespace)
    call.rights.require(group(group_name), Action.SUB)
    call.rights.require(topic(name), Action.SUB)
    known_topic(call.engine.catalog, name)
    return group_name, name, message_queue.id


def _range_of(call: Call, name: str, queue: int) -> QueueRange:
    ranges = call.engine.queue_ranges(name)
    if not 0 <= queue < len(ranges):
        raise UnknownQueue(f"topic {name} has {len(ranges)} queues, none is {queue}")
    return ranges[queue]
