"""POST /groups/{group}/locks:acquire and :release. Translates only."""

from apps.access.policy import Action, topic
from apps.doors.http import answers, places, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.groupshapes import (
    LockedItem,
    LocksAnswer,
    RefusedItem,
    locks_decoder,
    release_decoder,
)
from apps.engine.grouptypes import LockAnswer


async def acquire(door: Door, call: Call) -> Answer:
    """Take or renew the locks of queues for a client."""
    body = await reading.json_of(call, locks_decoder, door.settings.request_bytes_max)
    wanted = places.places_at(body.queues, "/queues")
    for name in {place.topic for place in wanted}:
        call.rights.require(topic(name), Action.SUB)
    return _answer_of(await call.engine.acquire_locks(call.name, body.client_id, wanted))


async def release(door: Door, call: Call) -> Answer:
    """Give a client's locks back; those of others are refused."""
    body = await reading.json_of(call, release_decoder, door.settings.request_bytes_max)
    held = places.places_at(body.queues, "/queues")
    epochs = {
        place: item.epoch
        for place, item in zip(held, body.queues, strict=True)
        if item.epoch is not None
    }
    return _answer_of(
        await call.engine.release_locks(call.name, body.client_id, held, epochs=epochs)
    )


def _answer_of(answer: LockAnswer) -> Answer:
    locked = [
        LockedItem(lock.topic, lock.queue, lock.epoch, lock.expires_in_ms) for lock in answer.locked
    ]
    refused = [RefusedItem(lock.topic, lock.queue, lock.owner) for lock in answer.refused]
    return answers.json(200, LocksAnswer(locked, refused))
