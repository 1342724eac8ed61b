"""Both ends of the road from feed to viewers over the channel layer. Asks no engine.

The layer delivers a frame at most once, forgets its members when it is flushed, and may be away.
So nothing waits for it: the feed hands over and goes on, and viewers are shown what stands on
the board of this process whenever the layer brings nothing.

A layer of this process alone is only told that there is a picture: everybody it reaches finds that
on the board. To others the picture itself travels, cut to a bound of bytes (`travel`) and in no
language, as nobody knows who looks there.
"""

import asyncio
from typing import Any

from channels.layers import InMemoryChannelLayer, get_channel_layer

from apps.console import travel
from apps.console.audience import Audience, audience, sequence_of
from apps.console.board import Board, board
from apps.console.picture import Picture
from apps.console.snapshot import Snapshot

GROUP = "overview"
SEND_S_MAX = 1.0
# Pages call themselves stale after 5 s without a frame; the board must be looked at before.
QUIET_S_MAX = 2.0


def stays_here(layer: Any) -> bool:  # Channels has no types.
    """Say whether a layer reaches nobody but this process."""
    return isinstance(layer, InMemoryChannelLayer)


class Outgoing:
    """The feed's end: the newest picture on its way to the layer."""

    def __init__(self) -> None:
        self._newest: Snapshot | None = None
        self._has_arrived = asyncio.Event()

    async def put(self, snapshot: Snapshot) -> None:
        """Replace the picture that waits to be sent; returns at once."""
        self._newest = snapshot
        self._has_arrived.set()

    async def step(self) -> None:
        """Wait for a picture and send it; it is packed once, and only where that is needed.

        Raise TimeoutError when the layer takes longer than a second, or what the layer raises.
        """
        await self._has_arrived.wait()
        self._has_arrived.clear()
        snapshot = self._newest
        assert snapshot is not None
        layer = get_channel_layer()
        parts: list[bytes] = []
        if not stays_here(layer):
            # Beside the loop, which the engine shares: thousands of locks take many milliseconds.
            parts = await asyncio.to_thread(travel.packed, snapshot)
        event = {"type": "picture.new", "sequence": sequence_of(snapshot), "parts": parts}
        async with asyncio.timeout(SEND_S_MAX):
            await layer.group_send(GROUP, event)


class Incoming:
    """The viewers' end: one member of the layer's group for all viewers of this process."""

    def __init__(
        self,
        *,
        board: Board = board,
        audience: Audience = audience,
        quiet_s_max: float = QUIET_S_MAX,
    ) -> None:
        self._board = board
        self._audience = audience
        self._quiet_s_max = quiet_s_max
        self._channel: str | None = None

    async def step(self) -> None:
        """Show viewers the next picture, or after a silence what the board has.

        Raise what the layer raises; viewers have been shown the board's picture by then.
        """
        try:
            async with asyncio.timeout(self._quiet_s_max):
                event = await self._next()
        except TimeoutError:
            # Away, flushed, or the feed has nothing new: the board tells.
            pass
        else:
            self._catch_up()
            epoch, version = event["sequence"]
            if event["parts"]:
                self._audience.show(
                    (epoch, version), lambda: Picture(travel.unpacked(event["parts"]))
                )
        finally:
            self._catch_up()

    async def _next(self) -> dict[str, Any]:  # A layer's event: its shape depends on its type.
        layer = get_channel_layer()
        if self._channel is None:
            self._channel = await layer.new_channel()
        # Each time anew: a layer that was flushed or restarted knows no member.
        await layer.group_add(GROUP, self._channel)
        event: dict[str, Any] = await layer.receive(self._channel)
        return event

    def _catch_up(self) -> None:
        posted = self._board.latest()
        if posted is None:
            return
        self._audience.show(sequence_of(posted.snapshot), lambda: posted.picture)
