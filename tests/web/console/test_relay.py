"""The road over the channel layer: viewers are up to date whatever the layer loses."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from channels.layers import InMemoryChannelLayer

from apps.console import relay
from apps.console.audience import BEFORE_ALL, Audience
from apps.console.board import Board
from apps.console.feed import Feed
from apps.console.relay import GROUP, Incoming, Outgoing
from tests.web.console.fakes import FakeEngine, HandClock, settle


class Layer(InMemoryChannelLayer):  # type: ignore[misc]  # Channels has no types.
    """A channel layer that can be away in two ways, and counts how often it was."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = False
        self.hangs = False
        self.faults = 0

    async def group_add(self, group: str, channel: str) -> None:
        await self._suffer()
        await super().group_add(group, channel)

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        await self._suffer()
        await super().group_send(group, message)

    async def _suffer(self) -> None:
        self.faults += self.refuses or self.hangs
        if self.refuses:
            raise ConnectionError("the layer is away")
        if self.hangs:
            await asyncio.Event().wait()


class Road:
    """A feed, both ends of the road, and what viewers were shown at its end."""

    def __init__(self, layer: Layer, feed: Feed, engine: FakeEngine) -> None:
        self.layer = layer
        self.board = Board()
        self.audience = Audience()
        self.outgoing = Outgoing()
        self.incoming = Incoming(board=self.board, audience=self.audience, quiet_s_max=0.05)
        self._feed = feed
        self._engine = engine

    def post(self) -> Any:
        """Put a new picture on the board and return it."""
        posted = self._feed.sample(self._engine.api)
        self.board.put(posted)
        return posted.snapshot

    async def receive(self, meanwhile: Callable[[], Awaitable[object]] | None = None) -> None:
        """Do one step at the viewers' end, with something else going on as soon as it waits."""
        receiving = asyncio.create_task(self.incoming.step())
        await settle()
        if meanwhile is not None:
            await meanwhile()
        await receiving

    async def send(self) -> None:
        """Do one step at the feed's end, with a new picture."""
        await self.outgoing.put(self.post())
        await self.outgoing.step()

    @property
    def shown(self) -> dict[str, Any]:
        """Return what a viewer who comes now is shown of the audience."""
        return dict(json.loads(self.audience._text))


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch) -> Layer:
    layer = Layer()
    monkeypatch.setattr(relay, "get_channel_layer", lambda: layer)
    return layer


@pytest.fixture
def road(layer: Layer, feed: Feed, engine: FakeEngine) -> Road:
    return Road(layer, feed, engine)


async def test_a_picture_travels_over_the_layer(road: Road) -> None:
    await road.receive(meanwhile=road.send)

    assert road.audience.sequence == (7, 1)
    assert "history" not in road.shown


@pytest.mark.parametrize("fault", ["refuses", "hangs"])
async def test_viewers_are_shown_the_board_while_the_layer_is_away_and_the_layer_afterwards(
    road: Road, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "SEND_S_MAX", 0.05)
    setattr(road.layer, fault, True)
    for version in range(1, 4):
        road.post()
        try:
            await road.incoming.step()
        except ConnectionError:
            assert fault == "refuses"
        assert road.audience.sequence == (7, version)
        assert len(road.shown["history"]) == version
    with pytest.raises((ConnectionError, TimeoutError)):
        await road.send()
    assert road.layer.faults == 4
    setattr(road.layer, fault, False)

    await road.receive(meanwhile=road.send)

    assert road.audience.sequence == (7, 5)
    assert "history" not in road.shown


async def test_a_layer_that_forgot_its_members_is_joined_again(road: Road) -> None:
    await road.receive(meanwhile=road.send)
    assert road.layer.groups[GROUP]
    await road.layer.flush()

    await road.receive(meanwhile=road.layer.flush)
    forgotten = dict(road.layer.groups)
    await road.receive(meanwhile=road.send)

    assert forgotten == {}
    assert road.audience.sequence == (7, 2)
    assert "history" not in road.shown


async def test_a_frame_that_comes_late_is_not_shown_after_a_newer_one(road: Road) -> None:
    await road.receive()
    await road.outgoing.put(road.post())
    await road.outgoing.step()
    road.post()
    road.post()

    await road.receive()

    assert road.audience.sequence == (7, 3)
    assert road.shown["version"] == 3


async def test_a_restarted_store_counts_from_one_again_and_its_pictures_are_newer(
    road: Road,
) -> None:
    road.audience.show((7, 40), "before the restart")

    road.audience.show((8, 1), "after the restart")
    road.audience.show((7, 41), "on its way since before the restart")

    assert await road.audience.newer_than(BEFORE_ALL) == ((8, 1), "after the restart")


async def test_the_feed_hands_over_without_waiting_and_the_newest_picture_is_sent(
    road: Road, clock: HandClock
) -> None:
    road.layer.hangs = True
    for _ in range(3):
        await road.outgoing.put(road.post())
    road.layer.hangs = False

    await road.receive(meanwhile=road.outgoing.step)

    assert road.audience.sequence == (7, 3)


@pytest.mark.parametrize("turns", range(12))
async def test_a_cancellation_ends_a_sending_step_in_whichever_moment_it_comes(
    road: Road, turns: int
) -> None:
    """Turn by turn of the loop through a whole step; a lost cancellation outlived the broker."""
    sent = asyncio.create_task(repeat(road.outgoing.step))
    await settle()
    await road.outgoing.put(road.post())
    for _ in range(turns):
        await asyncio.sleep(0)

    sent.cancel()
    await settle()

    assert sent.cancelled()


@pytest.mark.parametrize("turns", range(12))
async def test_a_cancellation_ends_a_receiving_step_in_whichever_moment_it_comes(
    road: Road, turns: int
) -> None:
    received = asyncio.create_task(repeat(road.incoming.step))
    await settle()
    await road.send()
    for _ in range(turns):
        await asyncio.sleep(0)

    received.cancel()
    await settle()

    assert received.cancelled()


async def repeat(step: Callable[[], Awaitable[None]]) -> None:
    while True:
        await step()
