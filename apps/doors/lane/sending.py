"""The lane's send: a batch of records to the engine, its answer to a frame. Knows no socket."""

import asyncio
import dataclasses
from collections.abc import Callable
from functools import lru_cache, partial

from apps.access.gate import Denied, Knock, Rights
from apps.access.policy import Action
from apps.access.policy import topic as topic_named
from apps.doors import steps
from apps.doors.http import answers
from apps.doors.http.calls import Door
from apps.doors.http.refusals import Refusal
from apps.doors.http.rights import refusal_of
from apps.doors.http.routing import name_rule
from apps.doors.http.send import batch_answer
from apps.doors.lane.frames import ACKS, KNOWN_FLAGS, WANTS_JSON, Kind, Request, Verb, build_answer
from apps.engine import limits
from apps.engine.api import EngineAPI
from apps.engine.codec import wire
from apps.engine.errors import (
    BatchTooLarge,
    EngineError,
    InvalidArgument,
    InvalidName,
    OutOfMeans,
    Stopping,
)
from apps.engine.types import AckMode, Appended, RecordBatch

Respond = Callable[[bytes], None]
_Stored = list[Appended]


def begin(
    door: Door,
    engine_of: Callable[[], EngineAPI | None],
    request: Request,
    respond: Respond,
    rights: Rights | None = None,
) -> None:
    """Carry a request out; `respond` is given its answer's frame, exactly once, now or later.

    `rights` are the connection's, None where access is off.
    """
    try:
        if request.refused is not None:
            raise request.refused
        if request.verb != Verb.SEND:
            raise InvalidArgument(f"there is no verb {request.verb}")
        if request.flags & ~KNOWN_FLAGS:
            raise InvalidArgument(f"there are no flags {request.flags:#x}")
        topic = _topic(request.name)
        if rights is not None:
            rights.check(topic_named(topic), Action.PUB)
        engine = engine_of()
        if engine is None:
            raise Stopping("the engine is not open")
        ack = ACKS[request.flags & 3] or door.settings.default_ack
        payload, sizes = wire.parse_batch(request.body)
        if len(payload) > door.settings.batch_bytes_max:
            raise BatchTooLarge(
                f"the records are longer than {door.settings.batch_bytes_max} bytes"
            )
        batch = RecordBatch(topic=topic, queue=request.queue, payload=payload, sizes=sizes)
    except Exception as error:  # As in `_finish`: the request ends, the lane does not.
        if isinstance(error, Denied) and door.gate is not None and rights is not None:
            door.gate.tell(error, Knock(source=rights.caller.source, agent="lane"))
        respond(failure(door, request.number, error))
        return
    steps.run(
        engine.append([batch], ack=ack),
        partial(_finish, door, request.number, request.flags, len(sizes), ack, respond),
    )


def _finish(
    door: Door,
    number: int,
    flags: int,
    count: int,
    ack: AckMode,
    respond: Respond,
    stored: _Stored | None,
    error: BaseException | None,
) -> None:
    if stored is None:
        assert error is not None
        respond(failure(door, number, error))
        return
    if ack is AckMode.ONEWAY:
        respond(build_answer(number, 202, Kind.NOTHING))
        return
    (appended,) = stored
    if appended.repeats:
        # All of it was stored before; the answer is about the whole batch, as the first one was.
        appended = dataclasses.replace(appended, count=count)
    if flags & WANTS_JSON:
        _, _, body = answers.json(201, batch_answer(appended))
        assert isinstance(body, bytes)
        respond(build_answer(number, 201, Kind.JSON, body))
    else:
        respond(build_answer(number, 201, Kind.RECORDS, wire.build_appended(appended)))


def failure(door: Door, number: int, error: BaseException) -> bytes:
    """Return the frame of a problem document, the same that HTTP would answer."""
    request_id = door.request_ids.of(None)
    if isinstance(error, MemoryError):
        error = OutOfMeans("no memory is left for this request")
    elif isinstance(error, asyncio.CancelledError):
        error = Stopping("the engine takes no more requests")
    if isinstance(error, Denied):
        error = refusal_of(error)
    if isinstance(error, Refusal):
        answer, headers = answers.of_refusal(error, request_id)
    elif isinstance(error, EngineError):
        answer, headers = answers.of_engine_error(error, request_id)
    elif isinstance(error, Exception):
        answer, headers = answers.of_bug(error, request_id)
    else:
        raise error
    status, _, body = answer
    assert isinstance(body, bytes)
    # The field has one byte. Who comes back too early is told again.
    retry_after_s = min(255, int(dict(headers).get(b"retry-after", b"0")))
    return build_answer(number, status, Kind.PROBLEM, body, retry_after_s=retry_after_s)


@lru_cache(maxsize=4096)
def _topic(name: bytes) -> str:
    """Return a topic's name; raise InvalidName."""
    topic = name.decode("utf-8", "replace")
    if limits.NAME_PATTERN.fullmatch(topic) is None:
        raise InvalidName(name_rule("topic"))
    return topic
