"""POST /groups/{group}/messages:receive: hand out messages of a group. Translates only."""

from functools import lru_cache, partial

from apps.access.policy import Action, topic
from apps.doors.http import answers, messages, places, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.refusals import Refusal, invalid
from apps.doors.http.shapes import (
    JSON_FETCH_MESSAGES_MAX,
    IncomingMessage,
    QueueItem,
    ReceiveAnswer,
    ReceiveBody,
    receive_decoder,
)
from apps.doors.http.times import rfc3339
from apps.engine.codec import wire
from apps.engine.types import Lease, ReceiveRequest, ReceiveResult

_RECORDS = wire.MEDIA_TYPE.encode()
_SOFTWARE_CHARACTERS_MAX = 128


async def receive(door: Door, call: Call) -> Answer:
    """Hand out messages in binary or JSON; wait for them, or until the client leaves."""
    body = await reading.json_of(call, receive_decoder, door.settings.request_bytes_max)
    is_binary = reading.wants(call, _RECORDS)
    request = _request_of(call, body, is_binary=is_binary)
    for name in request.topics:
        call.rights.require(topic(name), Action.SUB)
    work = call.engine.receive(request)
    if request.wait_ms:
        result = await reading.unless_gone(work, call, undo=partial(_give_back, call))
    else:
        result = await work
    if is_binary:
        return 200, answers.RECORDS, wire.build_receive(result)
    try:
        # As JSON it is larger, and lies in memory until the last byte is taken.
        call.share.expect(sum(len(lease.block.payload) for lease in result.leases))
    except Refusal:
        await _give_back(call, result, "the answer found no memory")
        raise
    shown = messages.TagFilter(request.filter, request.filter_type)
    found, collisions = _messages_of(result.leases, shown, request.topics)
    if collisions:
        # The engine matched hashes. To the group these messages are filtered out, so settled.
        await call.engine.ack(call.name, collisions)
    return answers.json(200, ReceiveAnswer(found, _blocked_of(request, result)))


def _blocked_of(request: ReceiveRequest, result: ReceiveResult) -> list[int | QueueItem]:
    """Return the queues passed over, by number alone where that says which they are.

    The group's retry topic may be among them; it has one queue, which is not the topic's.
    """
    if len(request.topics) == 1:
        return [queue for topic, queue in result.blocked if topic == request.topics[0]]
    return [QueueItem(topic=topic, queue=queue) for topic, queue in result.blocked]


async def _give_back(call: Call, result: ReceiveResult, reason: str = "the receiver left") -> None:
    """Hand messages to the next receiver at once: this one will not be answered with them."""
    handles = []
    for lease in result.leases:
        offsets = [record.queue_offset for record in messages.records_of(lease.block)]
        handles.append(f"{lease.token}:{offsets[0]}-{offsets[-1]}")
    if handles:
        await call.engine.nack(call.name, handles, delay_ms=0, reason=reason)


def _request_of(call: Call, body: ReceiveBody, *, is_binary: bool) -> ReceiveRequest:
    if (body.topic is None) == (body.topics is None):
        raise invalid("/topic", "give topic or topics, not both")
    if body.topic is not None:
        topics: tuple[str, ...] = (places.topic_at(body.topic, "/topic"),)
    else:
        topics = tuple(
            places.topic_at(topic, f"/topics/{index}")
            for index, topic in enumerate(body.topics or ())
        )
    return ReceiveRequest(
        group=call.name,
        topics=topics,
        messages_max=body.max if is_binary else min(body.max, JSON_FETCH_MESSAGES_MAX),
        wait_ms=body.wait_ms,
        invisible_ms=body.invisible_ms,
        filter=body.filter,
        filter_type=body.filter_type,
        client_id=body.client_id,
        ordered=body.ordered,
        high_queue_first=body.high_queue_first,
        software=_software_of(call.fields.get(b"user-agent", b"")),
        address=call.client[0] if call.client else "",
    )


@lru_cache(maxsize=256)
def _software_of(agent: bytes) -> str:
    """Return what a client calls itself, for people; nothing where that cannot be shown."""
    text = agent[:_SOFTWARE_CHARACTERS_MAX].decode("latin-1")
    return text if text.isprintable() else ""


def _messages_of(
    leases: tuple[Lease, ...], tag_filter: messages.TagFilter, topics: tuple[str, ...]
) -> tuple[list[IncomingMessage], list[str]]:
    """Return the messages, and the handles of those that only share a hash with the filter."""
    found: list[IncomingMessage] = []
    collisions: list[str] = []
    for lease in leases:
        invisible_until = rfc3339(lease.invisible_until_ms)
        # What comes again was matched before, and the retry topic has no filter.
        is_filtered = lease.block.topic in topics
        for record in messages.records_of(lease.block):
            handle = f"{lease.token}:{record.queue_offset}"
            if is_filtered and tag_filter.is_collision(record):
                collisions.append(handle)
                continue
            found.append(
                messages.message_of(
                    record,
                    receipt_handle=handle,
                    delivery_attempt=record.reconsume_times + lease.attempt,
                    invisible_until=invisible_until,
                )
            )
    return found, collisions
