"""Live sockets: forward what the feed built. Knows frames and the channel layer; asks no engine."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from channels.consumer import get_handler_name
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.layers import get_channel_layer

from apps.console import frames
from apps.console.board import board
from apps.console.snapshot import Snapshot

OVERVIEW_GROUP = "overview"
# 1008 of RFC 6455: the peer broke the rule that these sockets only speak.
POLICY_VIOLATION = 1008

Frame = dict[str, Any]  # An ASGI or channel-layer dictionary: its shape depends on its type.


async def publish(snapshot: Snapshot) -> None:
    """Send a picture to every viewer; it becomes text once, however many they are."""
    layer = get_channel_layer()
    await layer.group_send(
        OVERVIEW_GROUP,
        {
            "type": "overview.update",
            "version": snapshot["version"],
            "text": frames.update(snapshot),
        },
    )


class OverviewSocket(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types.
    """One viewer: greeted with the newest picture, then given each update.

    A viewer who reads too slowly keeps one place for an update, and a newer one replaces it there:
    nothing piles up, and what arrives is as new as can be.
    """

    groups = (OVERVIEW_GROUP,)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._newest_text = ""
        self._arrived = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None

    async def __call__(
        self,
        scope: Frame,
        receive: Callable[[], Awaitable[Frame]],
        send: Callable[[Frame], Awaitable[None]],
    ) -> None:
        """Serve the socket, and leave no task behind however it ends."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._sender is not None:
                self._sender.cancel()
                # OSError: the peer went away while a frame was being sent.
                with contextlib.suppress(asyncio.CancelledError, OSError):
                    await self._sender

    async def dispatch(self, message: Frame) -> None:
        """Hand an event to its handler; an unknown one is a bug of the sender and raises.

        The stock way visits a thread first, to tidy database connections. This socket has none,
        and a visit for each viewer and second would be most of its cost.
        """
        await getattr(self, get_handler_name(message))(message)

    async def connect(self) -> None:
        """Accept and greet; with no engine open the viewer waits for the first update."""
        await self.accept()
        if posted := board.latest():
            await self.send(text_data=frames.greeting(posted))
        self._sender = asyncio.create_task(self._send_newest())

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Close: a viewer has nothing to say here, and what it says costs time."""
        del text_data, bytes_data
        await self.close(code=POLICY_VIOLATION)

    async def overview_update(self, event: Frame) -> None:
        """Take an update from the feed; an unsent older one is dropped."""
        self._newest_text = event["text"]
        self._arrived.set()

    async def _send_newest(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            await self.send(text_data=self._newest_text)
