"""Live sockets: forward what a view shows. Knows frames and views; asks no engine and no layer."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from apps.access.gate import HIDDEN, Denied
from apps.access.policy import Sight
from apps.console.audience import Audience, Watcher, audience, sequence_of
from apps.console.board import board
from apps.console.projections import is_view
from apps.console.watching import sight_on
from apps.core.languages import language_of
from apps.engine.clock import Clock, SystemClock

# Of RFC 6455: the peer broke the rules of these sockets, or there are too many of them.
POLICY_VIOLATION = 1008
TRY_AGAIN_LATER = 1013
# Ours: the caller may not see this, and there is no such view.
FORBIDDEN = 4403
UNKNOWN_VIEW = 4404

# All that a viewer may say: it has missed a version, and wants everything.
RESYNC = "resync"
RESYNC_EVERY_MS = 1_000
VIEWERS_MAX = 2_000

Event = dict[str, Any]  # An ASGI dictionary: its shape depends on its type.
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]


async def overview(scope: Event, receive: Receive, send: Send) -> None:
    """Serve a viewer of the overview."""
    await _served(scope, receive, send, view="overview")


async def live(scope: Event, receive: Receive, send: Send) -> None:
    """Serve a viewer of the view that the query string names: `?view=group.billing`."""
    await _served(scope, receive, send, view=_asked_view(scope.get("query_string", b"")))


def _asked_view(query: bytes) -> str:
    """Return what a query string names; an empty text for one that is none, or too long."""
    try:
        asked = parse_qs(query.decode("latin-1"), max_num_fields=5)
    except ValueError:
        return ""
    return asked.get("view", [""])[0]


async def _served(scope: Event, receive: Receive, send: Send, *, view: str) -> None:
    """Serve one viewer: given all of the view, and then each change of it.

    A viewer who reads too slowly misses versions; what arrives then is all of the newest. One who
    says anything but that it missed something, or says that too often, is shown the door.
    """
    await receive()  # The handshake; its origin was checked on the way here.
    # A refusal before the handshake is done would reach the page without its reason.
    await send({"type": "websocket.accept"})
    sight, code = _admission(scope, view)
    if sight is None:
        await send({"type": "websocket.close", "code": code})
        return
    _see_the_board(audience)
    with audience.joined(view, sight, language_of(scope)) as watcher:
        showing = asyncio.create_task(_show(watcher, send))
        try:
            if not await _listen(receive, watcher, SystemClock()):
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        finally:
            showing.cancel()
            # OSError: the peer went away while a frame was being sent.
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await showing


def _admission(scope: Event, view: str) -> tuple[Sight | None, int]:
    """Return what the viewer sees; None with the code to close with for one who is refused."""
    if not is_view(view):
        return None, UNKNOWN_VIEW
    try:
        sight = sight_on(scope, view)
    except Denied as denied:
        return None, UNKNOWN_VIEW if denied.code == HIDDEN else FORBIDDEN
    return (None, TRY_AGAIN_LATER) if audience.count >= VIEWERS_MAX else (sight, 0)


def _see_the_board(audience: Audience) -> None:
    """Show what stands on the board of this process, which may be newer than what has travelled."""
    if posted := board.latest():
        audience.show(sequence_of(posted.snapshot), lambda: posted.picture)


async def _listen(receive: Receive, watcher: Watcher, clock: Clock) -> bool:
    """Hear what a viewer says until it goes; return False for one that breaks the rules."""
    asked_ms: int | None = None
    while True:
        event = await receive()
        if event["type"] != "websocket.receive":
            return True
        now_ms = clock.monotonic_ms()
        is_too_often = asked_ms is not None and now_ms - asked_ms < RESYNC_EVERY_MS
        if event.get("text") != RESYNC or is_too_often:
            return False
        asked_ms = now_ms
        watcher.start_over()


async def _show(watcher: Watcher, send: Send) -> None:
    """Send all of the view and then every change; without a picture, wait for the first."""
    while True:
        await send({"type": "websocket.send", "text": await watcher.next()})
