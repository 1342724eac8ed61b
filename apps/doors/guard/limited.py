"""An ASGI application behind the limits of its clients. Knows ASGI and the limits, no verb."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from apps.access.gate import Denied, Gate, Rights
from apps.core import problems, requestids
from apps.doors.guard.clients import ClientLimits, TooMany

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Application = Callable[[Event, Receive, Send], Awaitable[None]]

# Probes, metrics, pages and our own processes must get through when clients do not.
PREFIX = "/api/"


def address_of(scope: Event) -> str:
    """Return the address a request comes from: the client, where nobody is asked who they are."""
    client = scope.get("client")
    return client[0] if client else ""


def by_account(gate: Gate) -> Callable[[Event], str]:
    """Return what names a client by its token's account; by its address where it has none."""

    def name_of(scope: Event) -> str:
        authorization = dict(scope["headers"]).get(b"authorization")
        try:
            return account_name(gate.rights_of(authorization, scope.get("client")))
        except Denied:
            # It is refused where it goes, and until then takes from its address.
            return address_of(scope)

    return name_of


def account_name(rights: Rights) -> str:
    """Return the name of an account among clients, which no address has."""
    return f"account {rights.caller.principal.name}"


def limited(
    application: Application,
    limits: ClientLimits,
    *,
    name_of: Callable[[Event], str] = address_of,
) -> Application:
    """Return the application, with requests to the API refused 429 where a client asks too much.

    A request is refused before its body is read. The server drops what is on its way and keeps
    the connection. `name_of` says which client a request is of.
    """

    async def guarded(scope: Event, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await application(scope, receive, send)
            return
        name = name_of(scope)
        announced_bytes = _announced_bytes(scope)
        try:
            limits.enter(name, announced_bytes or 0)
        except TooMany as refusal:
            await _refuse(scope, send, refusal)
            return

        async def counted() -> Event:
            event = await receive()
            limits.spend(name, len(event.get("body", b"")))
            return event

        try:
            await application(scope, receive if announced_bytes is not None else counted, send)
        finally:
            limits.leave(name)

    return guarded


def _announced_bytes(scope: Event) -> int | None:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:18])
    return None


async def _refuse(scope: Event, send: Send, refusal: TooMany) -> None:
    offered = dict(scope["headers"]).get(requestids.HEADER.lower().encode())
    request_id = requestids.request_id_from(offered.decode("latin-1") if offered else None)
    kind = problems.KINDS["too_many_requests"]
    document = problems.problem_of_kind(kind.code, detail=str(refusal), request_id=request_id)
    body = json.dumps(document).encode()
    headers = [
        (b"content-type", problems.MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"retry-after", b"%d" % refusal.retry_after_s),
        (requestids.HEADER.lower().encode(), request_id.encode()),
    ]
    if any(name == b"expect" for name, _ in scope["headers"]):
        # Nobody can tell whether the body that was held back still comes.
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": kind.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
