"""POST /groups/{group}/locks:acquire and :release. Translates only."""

from collections.abc import Awaitable, Callable, Sequence

from apps.doors.http import answers, places, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.groupshapes import LockedItem, LocksAnswer, RefusedItem, locks_decoder
from apps.engine.grouptypes import LockAnswer, QueuePlace

_Verb = Callable[[str, str, Sequence[QueuePlace]], Awaitable[LockAnswer]]


async def acquire(door: Door, call: Call) -> Answer:
    """Take or renew the locks of queues for a client."""
    return await _answered(door, call, call.engine.acquire_locks)


async def release(door: Door, call: Call) -> Answer:
    """Give a client's locks back; those of others are refused."""
    return await _answered(door, call, call.engine.release_locks)


async def _answered(door: Door, call: Call, verb: _Verb) -> Answer:
    body = await reading.json_of(call, locks_decoder, door.settings.request_bytes_max)
    answer = await verb(call.name, body.client_id, places.places_at(body.queues, "/queues"))
    locked = [
        LockedItem(lock.topic, lock.queue, lock.epoch, lock.expires_in_ms) for lock in answer.locked
    ]
    refused = [RefusedItem(lock.topic, lock.queue, lock.owner) for lock in answer.refused]
    return answers.json(200, LocksAnswer(locked, refused))
