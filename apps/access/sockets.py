"""Live sockets behind the decision: asked at the handshake, and ended when the answer changes.

Knows ASGI and sessions; not what a socket shows.
"""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, parse_cookie

from apps.access import asking, telling
from apps.access.gate import Denied, Rights
from apps.access.policy import CLUSTER, Action

# Told to a page whose viewer may not look any more: reconnecting cannot help.
MAY_NOT = 4403

Event = dict[str, Any]  # An ASGI dictionary: its shape depends on its type.
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Application = Callable[[Event, Receive, Send], Awaitable[None]]


def with_access(
    application: Application, *, rights_of: Callable[[Event], Awaitable[Rights]] | None = None
) -> Application:
    """Return the application, for viewers who may see the installation, and as long as they may.

    A handshake without a good session is refused. A socket whose session is signed out or over,
    or whose account loses the right, is closed with 4403.
    """
    ask = rights_of or _asked

    async def guarded(scope: Event, receive: Receive, send: Send) -> None:
        if not asking.is_on():
            await application(scope, receive, send)
            return
        try:
            rights = await ask(scope)
            rights.require(CLUSTER, Action.GET)
        except (Denied, OperationalError, InterfaceError) as error:
            if isinstance(error, Denied) and error.code == "forbidden":
                client = scope.get("client")
                telling.of_socket(error, client[0] if client else "")
            await receive()
            await send({"type": "websocket.close", "code": MAY_NOT})
            return
        await _served(application, scope, receive, send, rights)

    return guarded


async def _served(
    application: Application, scope: Event, receive: Receive, send: Send, rights: Rights
) -> None:
    ended: asyncio.Future[Denied] = asyncio.get_running_loop().create_future()
    watch = rights.watched(ended.set_result)
    serving = asyncio.ensure_future(application(scope, receive, send))
    try:
        await asyncio.wait((serving, ended), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
    finally:
        rights.unwatch(watch)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    if ended.done():
        await send({"type": "websocket.close", "code": MAY_NOT})


async def _asked(scope: Event) -> Rights:
    rights: Rights = await database_sync_to_async(_by_session)(scope)
    return rights


def _by_session(scope: Event) -> Rights:
    fields = dict(scope["headers"])
    cookies = parse_cookie(fields.get(b"cookie", b"").decode("latin-1"))
    engine = import_module(settings.SESSION_ENGINE)
    request = HttpRequest()
    request.session = engine.SessionStore(cookies.get(settings.SESSION_COOKIE_NAME))
    request.user = get_user(request)
    client = scope.get("client")
    request.META["REMOTE_ADDR"] = client[0] if client else ""
    return asking.by_session(request)
