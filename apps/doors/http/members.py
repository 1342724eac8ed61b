"""POST /groups/{group}/members/{client_id}:heartbeat and :leave. Translates only."""

from apps.access.policy import Action, topic
from apps.doors.http import answers, places, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.groupshapes import (
    BlockedItem,
    HeartbeatAnswer,
    HeartbeatBody,
    SubscriptionItem,
    heartbeat_decoder,
)
from apps.doors.http.refusals import invalid
from apps.doors.http.shapes import empty_decoder
from apps.engine.grouptypes import BlockedHead, HeartbeatRequest, Subscription


async def heartbeat(door: Door, call: Call) -> Answer:
    """Keep a member in its group and answer its queues; wait for a change as long as it asks.

    A client that leaves while it waits takes the call along: the engine sees it cancelled, and
    gives the member a short time to come back.
    """
    body = await reading.json_of(call, heartbeat_decoder, door.settings.request_bytes_max)
    request = _request_of(call, body)
    for wanted in request.subscriptions:
        call.rights.require(topic(wanted.topic), Action.SUB)
    work = call.engine.heartbeat(request)
    result = await (reading.unless_gone(work, call) if request.wait_ms else work)
    return answers.json(
        200,
        HeartbeatAnswer(
            generation=result.generation,
            assignment={topic: list(queues) for topic, queues in result.assignment.items()},
            heartbeat_ms=result.heartbeat_ms,
            retry_max=result.retry_max,
        ),
    )


def _request_of(call: Call, body: HeartbeatBody) -> HeartbeatRequest:
    return HeartbeatRequest(
        group=call.name,
        client_id=call.client_id,
        subscriptions=_subscriptions_of(body.subscriptions),
        model=body.model,
        ordered=body.ordered,
        strategy=body.strategy,
        site=body.site,
        generation=body.generation,
        wait_ms=body.wait_ms,
        blocked=tuple(_blocked_of(index, item) for index, item in enumerate(body.blocked)),
    )


def _subscriptions_of(items: list[SubscriptionItem]) -> tuple[Subscription, ...]:
    found: dict[str, Subscription] = {}
    for index, item in enumerate(items):
        pointer = f"/subscriptions/{index}/topic"
        topic = places.topic_at(item.topic, pointer)
        if topic in found:
            raise invalid(pointer, "the topic is given twice")
        found[topic] = Subscription(topic=topic, filter=item.filter, filter_type=item.filter_type)
    return tuple(found.values())


def _blocked_of(index: int, item: BlockedItem) -> BlockedHead:
    pointer = f"/blocked/{index}"
    return BlockedHead(
        topic=places.topic_at(item.topic, f"{pointer}/topic"),
        queue=item.queue,
        queue_offset=places.offset_at(item.offset, f"{pointer}/offset"),
        attempts=item.attempts,
        reason=item.reason,
    )


async def leave(_door: Door, call: Call) -> Answer:
    """Let a member leave its group at once; a body is not needed."""
    await reading.nothing_of(call, empty_decoder)
    await call.engine.leave(call.name, call.client_id)
    return answers.empty(204)
