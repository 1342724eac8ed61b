"""Where a group is in its queues, and where a time is in a queue. Translates only.

POST /groups/{group}/offsets:commit and :begin, GET /topics/{topic}/queues/{queue}/offset.
"""

from apps.access.policy import Action, topic
from apps.doors.http import answers, places, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.groupshapes import (
    BeginAnswer,
    BeginBody,
    BeginItem,
    CommitItem,
    OffsetAtAnswer,
    begin_decoder,
    commit_decoder,
)
from apps.doors.http.refusals import invalid
from apps.engine.types import ConsumeFrom, OffsetCommit


async def commit(door: Door, call: Call) -> Answer:
    """Set a group's progress, all queues of the request or none."""
    body = await reading.json_of(call, commit_decoder, door.settings.request_bytes_max)
    if body.generation is not None and not body.client_id:
        raise invalid("/client_id", "required with generation")
    commits = [_commit_of(index, item) for index, item in enumerate(body.offsets)]
    for name in {item.topic for item in commits}:
        call.rights.require(topic(name), Action.SUB)
    await call.engine.commit_offsets(
        call.name, commits, client_id=body.client_id, generation=body.generation
    )
    return answers.empty(204)


def _commit_of(index: int, item: CommitItem) -> OffsetCommit:
    pointer = f"/offsets/{index}"
    return OffsetCommit(
        topic=places.topic_at(item.topic, f"{pointer}/topic"),
        queue=item.queue,
        queue_offset=places.offset_at(item.offset, f"{pointer}/offset"),
        epoch=item.epoch,
    )


async def begin(door: Door, call: Call) -> Answer:
    """Answer where a group goes on in each queue; where it is new, it begins there."""
    body = await reading.json_of(call, begin_decoder, door.settings.request_bytes_max)
    queues = places.places_at(body.queues, "/queues")
    for name in {place.topic for place in queues}:
        call.rights.require(topic(name), Action.SUB)
    found = await call.engine.begin_offsets(
        call.name,
        queues,
        consume_from=body.consume_from,
        consume_from_ms=_consume_from_ms(body),
    )
    items = [BeginItem(row.topic, row.queue, str(row.queue_offset), row.is_new) for row in found]
    return answers.json(200, BeginAnswer(items))


def _consume_from_ms(body: BeginBody) -> int | None:
    pointer = "/consume_from_time"
    is_due = body.consume_from is ConsumeFrom.TIMESTAMP
    if body.consume_from_time is None:
        if is_due:
            raise invalid(pointer, "required with consume_from timestamp")
        return None
    if not is_due:
        raise invalid(pointer, "goes with consume_from timestamp only")
    return places.time_at(body.consume_from_time, pointer)


async def offset_at(_door: Door, call: Call) -> Answer:
    """Answer which message of a queue was the first at or after a time."""
    text = reading.query_of(call, ("time",)).get("time")
    if text is None:
        raise invalid("?time", "required")
    time_ms = places.time_at(text, "?time")
    queue_offset = await call.engine.offset_at(call.name, call.queue, time_ms)
    return answers.json(200, OffsetAtAnswer(call.name, call.queue, str(queue_offset)))
