"""POST /groups/{group}/messages:receive: hand out messages of a group. Translates only."""

from functools import partial

from apps.doors.http import answers, messages, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.refusals import Refusal, invalid
from apps.doors.http.routing import name_rule
from apps.doors.http.shapes import (
    JSON_FETCH_MESSAGES_MAX,
    IncomingMessage,
    ReceiveAnswer,
    ReceiveBody,
    receive_decoder,
)
from apps.doors.http.times import rfc3339
from apps.engine import limits
from apps.engine.codec import wire
from apps.engine.errors import InvalidName
from apps.engine.types import Lease, ReceiveRequest, ReceiveResult

_RECORDS = wire.MEDIA_TYPE.encode()


async def receive(door: Door, call: Call) -> Answer:
    """Hand out messages in binary or JSON; wait for them, or until the client leaves."""
    body = await reading.json_of(call, receive_decoder, door.settings.request_bytes_max)
    is_binary = reading.wants(call, _RECORDS)
    request = _request_of(call.name, body, is_binary=is_binary)
    work = call.engine.receive(request)
    if request.wait_ms:
        result = await reading.unless_gone(work, call.receive, undo=partial(_give_back, call))
    else:
        result = await work
    if is_binary:
        return 200, answers.RECORDS, wire.build_receive(result)
    found, collisions = _messages_of(result.leases, messages.TagFilter(request.filter))
    if collisions:
        # The engine matched hashes. To the group these messages are filtered out, so settled.
        await call.engine.ack(call.name, collisions)
    blocked = [queue for _topic, queue in result.blocked]
    return answers.json(200, ReceiveAnswer(messages=found, blocked_by_lock=blocked))


async def _give_back(call: Call, result: ReceiveResult) -> None:
    """Hand messages to the next receiver at once: this one left before it was answered."""
    handles = []
    for lease in result.leases:
        offsets = [record.queue_offset for record in messages.records_of(lease.block)]
        handles.append(f"{lease.token}:{offsets[0]}-{offsets[-1]}")
    if handles:
        await call.engine.nack(call.name, handles, delay_ms=0, reason="the receiver left")


def _request_of(group: str, body: ReceiveBody, *, is_binary: bool) -> ReceiveRequest:
    if body.filter_type == "SQL92":
        detail = "filter_type SQL92 does not exist in this version"
        raise Refusal(
            "unsupported", detail, errors=({"pointer": "/filter_type", "detail": detail},)
        )
    if (body.topic is None) == (body.topics is None):
        raise invalid("/topic", "give topic or topics, not both")
    topics = (body.topic,) if body.topic is not None else tuple(body.topics or ())
    if any(limits.NAME_PATTERN.fullmatch(topic) is None for topic in topics):
        raise InvalidName(name_rule("topic"))
    return ReceiveRequest(
        group=group,
        topics=topics,
        messages_max=body.max if is_binary else min(body.max, JSON_FETCH_MESSAGES_MAX),
        wait_ms=body.wait_ms,
        invisible_ms=body.invisible_ms,
        filter=body.filter,
        client_id=body.client_id,
        ordered=body.ordered,
        high_queue_first=body.high_queue_first,
    )


def _messages_of(
    leases: tuple[Lease, ...], tag_filter: messages.TagFilter
) -> tuple[list[IncomingMessage], list[str]]:
    """Return the messages, and the handles of those that only share a hash with the filter."""
    found: list[IncomingMessage] = []
    collisions: list[str] = []
    for lease in leases:
        invisible_until = rfc3339(lease.invisible_until_ms)
        for record in messages.records_of(lease.block):
            handle = f"{lease.token}:{record.queue_offset}"
            if tag_filter.is_collision(record):
                collisions.append(handle)
                continue
            found.append(
                messages.message_of(
                    record,
                    receipt_handle=handle,
                    delivery_attempt=lease.attempt,
                    invisible_until=invisible_until,
                )
            )
    return found, collisions
