"""Refuse long request bodies while they arrive. Knows ASGI events, nothing of Django."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from apps.core import problems, requestids

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Event, Receive, Send], Awaitable[None]]


class _TooLong(Exception):
    """The body went past the limit."""


def with_body_limit(app: App, *, body_bytes_max: int) -> App:
    """Wrap an ASGI application: a longer body is answered 413 before it is buffered."""

    async def limited(scope: Event, receive: Receive, send: Send) -> None:
        if _declared_bytes(scope) > body_bytes_max:
            await _refuse(scope, send, body_bytes_max)
            return
        received_bytes = 0
        has_begun = False

        async def counting_receive() -> Event:
            nonlocal received_bytes
            event = await receive()
            received_bytes += len(event.get("body", b""))
            if received_bytes > body_bytes_max:
                raise _TooLong
            return event

        async def watching_send(event: Event) -> None:
            nonlocal has_begun
            has_begun = True
            await send(event)

        try:
            await app(scope, counting_receive, watching_send)
        except _TooLong:
            if not has_begun:
                await _refuse(scope, send, body_bytes_max)

    return limited


def _declared_bytes(scope: Event) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:18])
    return 0


async def _refuse(scope: Event, send: Send, body_bytes_max: int) -> None:
    offered = dict(scope["headers"]).get(requestids.HEADER.lower().encode())
    request_id = requestids.request_id_from(offered.decode("latin-1") if offered else None)
    kind = problems.KINDS["request_too_large"]
    body = problems.problem_of_kind(
        kind.code, detail=f"a body may have {body_bytes_max} bytes here", request_id=request_id
    )
    headers = [
        (b"content-type", problems.MEDIA_TYPE.encode()),
        (b"connection", b"close"),
        (requestids.HEADER.lower().encode(), request_id.encode()),
    ]
    await send({"type": "http.response.start", "status": kind.status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
