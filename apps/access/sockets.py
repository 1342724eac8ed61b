"""Live sockets behind the decision: who is there, and ended when an answer changes.

Knows ASGI and sessions; not what a socket shows, which is asked about by whoever shows it.
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

from apps.access import asking
from apps.access.gate import CHANGED, Denied, Rights

# Told to a page whose viewer may not look any more: reconnecting cannot help.
MAY_NOT = 4403
# Told to one whose viewer may see more or less from now on: it is to come back and be asked anew.
COME_BACK = 4205

Event = dict[str, Any]  # An ASGI dictionary: its shape depends on its type.
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Application = Callable[[Event, Receive, Send], Awaitable[None]]


def with_access(
    application: Application, *, rights_of: Callable[[Event], Awaitable[Rights]] | None = None
) -> Application:
    """Return the application, for who is signed in; it finds their rights in `scope["access"]`.

    What it requires of them must hold for as long as the socket is open. A handshake without a
    good session is refused. A socket whose session is signed out or over, or whose account loses
    a right that was required, is closed with 4403; with 4205 where the application asked for its
    viewer's sight, and that is another one now.
    """
    ask = rights_of or _asked

    async def guarded(scope: Event, receive: Receive, send: Send) -> None:
        if not asking.is_on():
            await application(scope, receive, send)
            return
        try:
            rights = await ask(scope)
        except (Denied, OperationalError, InterfaceError):
            await receive()
            # A refusal before the handshake is done would reach the page without its reason.
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": MAY_NOT})
            return
        await _served(application, {**scope, "access": rights}, receive, send, rights)

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
        code = COME_BACK if ended.result().code == CHANGED else MAY_NOT
        await send({"type": "websocket.close", "code": code})


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
    request.META["HTTP_USER_AGENT"] = fields.get(b"user-agent", b"").decode("latin-1")
    rights = asking.by_session(request)
    rights.demand_factor()
    return rights
