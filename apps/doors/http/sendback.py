"""POST /groups/{group}/messages:send-back: messages a reader failed at. Translates only."""

from apps.access.policy import Action, topic
from apps.doors.http import answers, places, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.careshapes import (
    FailedItem,
    SendBackAnswer,
    SendBackItem,
    send_back_decoder,
)
from apps.doors.http.refusals import invalid
from apps.doors.http.times import rfc3339
from apps.engine.failuretypes import FailedMessage, Returned, ReturnResult


async def send_back(door: Door, call: Call) -> Answer:
    """Have messages tried again later, or made dead letters; their reader may go on."""
    body = await reading.json_of(call, send_back_decoder, door.settings.request_bytes_max)
    if body.generation is not None and not body.client_id:
        raise invalid("/client_id", "required with generation")
    failed = [_failed_of(index, item) for index, item in enumerate(body.messages)]
    for name in {item.topic for item in failed}:
        call.rights.require(topic(name), Action.SUB)
    results = await call.engine.send_back(
        call.name,
        failed,
        client_id=body.client_id,
        delay_level=retry_level(body.delay_level, body.delay_ms),
        delay_ms=body.delay_ms,
        reason=body.reason,
        generation=body.generation,
    )
    is_all_ok = all(result.outcome is not Returned.GONE for result in results)
    items = [_item(index, result) for index, result in enumerate(results)]
    return answers.json(200 if is_all_ok else 207, SendBackAnswer(items))


def retry_level(delay_level: int | None, delay_ms: int | None) -> int | None:
    """Return the level a failed message is to wait for; None is up to the group's policy.

    Raises Refusal when a delay is asked for in two ways.
    """
    if delay_level is not None and delay_ms is not None:
        raise invalid("/delay_level", "give delay_ms or delay_level, not both")
    # As in RocketMQ, where 0 leaves it to the broker.
    return delay_level or None


def _failed_of(index: int, item: FailedItem) -> FailedMessage:
    pointer = f"/messages/{index}"
    return FailedMessage(
        topic=places.topic_at(item.topic, f"{pointer}/topic"),
        queue=item.queue,
        queue_offset=places.offset_at(item.offset, f"{pointer}/offset"),
        epoch=item.epoch,
    )


def _item(index: int, result: ReturnResult) -> SendBackItem:
    return SendBackItem(
        index,
        410 if result.outcome is Returned.GONE else 200,
        result.outcome,
        None if result.due_ms is None else rfc3339(result.due_ms),
    )
