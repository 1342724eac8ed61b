"""Live sockets: forward what the feed built. Knows frames; asks no engine and no channel layer."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from apps.console import frames
from apps.console.audience import BEFORE_ALL, audience, sequence_of
from apps.console.board import board

# 1008 of RFC 6455: the peer broke the rule that these sockets only speak.
POLICY_VIOLATION = 1008

Event = dict[str, Any]  # An ASGI dictionary: its shape depends on its type.
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]


async def overview(scope: Event, receive: Receive, send: Send) -> None:
    """Serve one viewer: greeted with the newest picture, then given each newer frame.

    A viewer who reads too slowly misses frames; what arrives is as new as can be. One who speaks
    is shown the door: there is nothing to say here, and what is said costs time.
    """
    del scope
    await receive()  # The handshake; its origin was checked on the way here.
    await send({"type": "websocket.accept"})
    with audience.joined():
        showing = asyncio.create_task(_show(send))
        try:
            event = await receive()
            if event["type"] == "websocket.receive":
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        finally:
            showing.cancel()
            # OSError: the peer went away while a frame was being sent.
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await showing


async def _show(send: Send) -> None:
    """Send the newest picture and then every newer frame; without one, wait for the first."""
    sequence = BEFORE_ALL
    if posted := board.latest():
        sequence = sequence_of(posted.snapshot)
        await send({"type": "websocket.send", "text": frames.greeting(posted)})
    while True:
        sequence, text = await audience.newer_than(sequence)
        await send({"type": "websocket.send", "text": text})
