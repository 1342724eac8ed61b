"""The internal door as one ASGI application: check the token, ask the engine, answer.

For the product's own processes only: what it serves may change with any version. The only module
that sees a request from its first to its last byte, and so the only one here that may catch what
nobody expected.
"""

import hmac
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from inspect import isawaitable
from typing import Any

from apps.bridge import control
from apps.doors.hosts import host_check
from apps.engine.api import EngineControl
from apps.engine.errors import EngineError, Stopping

# ASGI's own types: an event is a mapping of whatever its kind defines.
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Application = Callable[[Event, Receive, Send], Awaitable[None]]
EngineOf = Callable[[], EngineControl | None]

Answer = tuple[HTTPStatus, bytes]

_log = logging.getLogger(__name__)


def is_control(path: str) -> bool:
    """Say whether a request is this door's to answer, by its decoded path."""
    return path.startswith(control.PREFIX)


class _ClientGone(Exception):
    """The client closed the connection; nobody is left to answer."""


def create_app(engine_of: EngineOf, *, token: str, allowed_hosts: frozenset[str]) -> Application:
    """Return the ASGI application; it serves HTTP only, to callers that send the token.

    `engine_of` is asked on every request, on the engine's own loop; None is answered as Stopping.
    """
    is_allowed_host = host_check(allowed_hosts)
    expected = token.encode()

    async def application(scope: Event, receive: Receive, send: Send) -> None:
        fields: dict[bytes, bytes] = dict(scope["headers"])
        offered = fields.get(control.TOKEN_HEADER.encode(), b"")
        name = scope["path"].removeprefix(control.PREFIX)
        if not is_allowed_host(fields.get(b"host", b"")):
            answer = HTTPStatus.BAD_REQUEST, b""
        elif not hmac.compare_digest(offered, expected):
            answer = HTTPStatus.FORBIDDEN, b""
        elif name not in control.VERBS:
            answer = HTTPStatus.NOT_FOUND, b""
        elif scope["method"] != "POST":
            answer = HTTPStatus.METHOD_NOT_ALLOWED, b""
        else:
            try:
                answer = await _answered(engine_of, control.VERBS[name], receive)
            except _ClientGone:
                return
            except Exception as error:  # The main loop of the door: it outlives every request.
                _log.error("control_verb_failed", extra={"verb": name}, exc_info=error)
                refusal = control.refusal_of(EngineError("the broker failed; its log says how"))
                answer = HTTPStatus.INTERNAL_SERVER_ERROR, control.packed(refusal)
        await _respond(send, answer)

    return application


async def _answered(engine_of: EngineOf, verb: control.Verb, receive: Receive) -> Answer:
    body = await _body(receive)
    if body is None:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b""
    try:
        argument = control.unpacked(body, verb.argument)
    except ValueError:
        return HTTPStatus.BAD_REQUEST, b""
    try:
        engine = engine_of()
        if engine is None:
            raise Stopping("the engine is not open")
        answer = verb.ask(engine, argument)
        if isawaitable(answer):
            answer = await answer
        return HTTPStatus.OK, control.packed(answer)
    except EngineError as error:
        is_later = error.retriable
        status = HTTPStatus.SERVICE_UNAVAILABLE if is_later else HTTPStatus.UNPROCESSABLE_ENTITY
        return status, control.packed(control.refusal_of(error))


async def _body(receive: Receive) -> bytes | None:
    """Return the body of a request; None for one over the limit."""
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _ClientGone
        body += event.get("body", b"")
        if len(body) > control.BODY_BYTES_MAX:
            return None
        if not event.get("more_body", False):
            return bytes(body)


async def _respond(send: Send, answer: Answer) -> None:
    status, body = answer
    headers = [
        (b"content-type", control.MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    if not body:
        # What was not read of the request may still be under way.
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})
