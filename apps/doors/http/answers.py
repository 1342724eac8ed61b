"""Answers as status, media type and bytes; errors as problem documents. Knows no verb."""

import logging
from collections.abc import Iterator, Sequence

import msgspec

from apps.core import problems, statuses
from apps.doors.http.calls import Send
from apps.doors.http.refusals import Refusal
from apps.engine.codec import wire
from apps.engine.errors import EngineError

_log = logging.getLogger(__name__)

Header = tuple[bytes, bytes]

JSON = (b"content-type", b"application/json")
RECORDS = (b"content-type", wire.MEDIA_TYPE.encode())
METRICS = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
PROBLEM = (b"content-type", problems.MEDIA_TYPE.encode())

# What a browser can be led to by a link may hold text of strangers: it must never guess a type
# for it, nor keep it. Answers to JSON posts do without: no page can navigate to one, and each
# header costs the server a microsecond.
GUARDS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_RETRY_AFTER = (b"retry-after", str(statuses.RETRY_AFTER_S).encode())

Answer = tuple[int, Header, bytes | list[wire.Buffer]]
"""Status, content type, body. Without a body the content type is not sent.

A body in parts is sent without joining them: messages are megabytes.
"""

# A part of its own costs a turn through the server; below this a copy is cheaper.
_PART_BYTES_MIN = 64 * 1024

_encode = msgspec.json.Encoder().encode


def json(status: int, value: object) -> Answer:
    """Return `value` as a JSON answer."""
    return status, JSON, _encode(value)


def empty(status: int) -> Answer:
    """Return an answer without a body."""
    return status, JSON, b""


async def respond(
    send: Send, answer: Answer, request_id: bytes, headers: Sequence[Header] = ()
) -> None:
    """Send an answer whole."""
    status, content_type, body = answer
    sent = [(b"x-request-id", request_id), *headers]
    if body:
        sent.append(content_type)
    if isinstance(body, list):
        sent.append((b"content-length", b"%d" % sum(map(len, body))))
        await send({"type": "http.response.start", "status": status, "headers": sent})
        for part in _joined(body):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    if status != 204:
        sent.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": sent})
    if len(body) >= _PART_BYTES_MIN:
        # The next event is taken when most of this one has left, so that the answer counts until
        # then.
        await send({"type": "http.response.body", "body": body, "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})


def _joined(parts: list[wire.Buffer]) -> Iterator[wire.Buffer]:
    """Yield the parts in order, small neighbours as one."""
    small: list[wire.Buffer] = []
    for part in parts:
        if len(part) < _PART_BYTES_MIN:
            small.append(part)
            continue
        if small:
            yield b"".join(small)
            small = []
        yield part
    if small:
        yield b"".join(small)


def of_refusal(refusal: Refusal, request_id: bytes) -> tuple[Answer, Sequence[Header]]:
    """Return the problem document of a refusal of the door, and its headers."""
    kind = refusal.kind
    document = problems.problem_of_kind(
        kind.code, detail=str(refusal), request_id=request_id.decode(), errors=refusal.errors
    )
    return (kind.status, PROBLEM, _encode(document)), refusal.headers


def problem_of(error: EngineError, request_id: bytes) -> dict[str, object]:
    """Return the problem document of an engine error.

    What the server is to blame for is logged; its text may name files, so callers get the
    error's general meaning instead.
    """
    name = request_id.decode()
    if statuses.status_of(error) != 500:
        return problems.problem_of_error(error, request_id=name)
    _log.error("engine error %s, request %s", error.code, name, exc_info=error)
    meaning = problems.KINDS[error.code].meaning
    return problems.problem_of_kind(error.code, detail=meaning, request_id=name)


def of_engine_error(error: EngineError, request_id: bytes) -> tuple[Answer, Sequence[Header]]:
    """Return the problem document of an engine error, and its headers."""
    document = problem_of(error, request_id)
    headers = (_RETRY_AFTER,) if error.retriable else ()
    return (statuses.status_of(error), PROBLEM, _encode(document)), headers


def of_bug(error: Exception, request_id: bytes) -> tuple[Answer, Sequence[Header]]:
    """Return the problem document of what should not have happened; its details go to the log."""
    name = request_id.decode()
    _log.error("internal error, request %s", name, exc_info=error)
    meaning = problems.KINDS["internal_error"].meaning
    document = problems.problem_of_kind("internal_error", detail=meaning, request_id=name)
    return (500, PROBLEM, _encode(document)), ()
