"""The road over the channel layer: viewers are up to date whatever the layer loses."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from channels.layers import InMemoryChannelLayer

from apps.console import frames, relay
from apps.console.audience import Audience
from apps.console.board import Board
from apps.console.feed import Feed
from apps.console.picture import Picture
from apps.console.relay import GROUP, Incoming, Outgoing
from tests.web.console.fakes import FakeEngine, HandClock, settle

SILENCE_S, PATIENCE_S = 0.05, 60.0


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
        self.incoming = Incoming(board=self.board, audience=self.audience, quiet_s_max=SILENCE_S)
        self._feed = feed
        self._engine = engine

    def post(self) -> Any:
        """Put a new picture on the board and return it."""
        posted = self._feed.sample(self._engine.api)
        self.board.put(posted)
        return posted.snapshot

    async def receive(self, meanwhile: Callable[[], Awaitable[object]] | None = None) -> None:
        """Do one step at the viewers' end, with something else going on as soon as it waits.

        What is sent meanwhile has all the time there is; a step with nothing to come ends soon.
        """
        is_sent = meanwhile in (self.send, self.outgoing.step)
        self.incoming._quiet_s_max = PATIENCE_S if is_sent else SILENCE_S
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
        """Return what a viewer who comes now is shown."""
        with self.audience.joined("overview") as watcher:
            text = watcher.channel.text_after(0, watcher.language)
            assert text is not None
            return dict(json.loads(text))


@pytest.fixture(params=["of this process", "of several"])
def layer(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Layer:
    """Return a layer; one of several processes, as Redis is, has pictures travel over it."""
    layer = Layer()
    monkeypatch.setattr(relay, "get_channel_layer", lambda: layer)
    monkeypatch.setattr(relay, "stays_here", lambda _: request.param == "of this process")
    return layer


@pytest.fixture
def road(layer: Layer, feed: Feed, engine: FakeEngine) -> Road:
    return Road(layer, feed, engine)


async def test_viewers_are_shown_a_picture_as_soon_as_the_layer_tells_of_it(road: Road) -> None:
    await road.receive(meanwhile=road.send)

    assert road.audience.sequence == (7, 1)
    assert len(road.shown["history"]) == 1


@pytest.mark.parametrize("layer", ["of several"], indirect=True)
async def test_a_process_without_a_feed_is_shown_what_travels(
    road: Road, engine: FakeEngine
) -> None:
    engine.add_topic("orders", queue_count=3)
    elsewhere = Road(road.layer, road._feed, engine)
    receiving = asyncio.create_task(elsewhere.incoming.step())
    await settle()

    await road.send()
    await receiving
    with elsewhere.audience.joined("topic.orders") as watcher:
        topic = json.loads(await watcher.next())

    assert elsewhere.board.latest() is None
    assert elsewhere.audience.sequence == (7, 1)
    assert len(topic["state"]["shown"]["queues"]) == 3


@pytest.mark.parametrize("layer", ["of this process"], indirect=True)
async def test_nothing_becomes_text_for_nobody(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[object] = []
    monkeypatch.setattr(frames, "_text", encoded.append)

    await road.receive(meanwhile=road.send)

    assert road.audience.sequence == (7, 1)
    assert encoded == []


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


async def test_a_layer_that_forgot_its_members_is_joined_again(road: Road) -> None:
    await road.receive(meanwhile=road.send)
    assert road.layer.groups[GROUP]
    await road.layer.flush()

    await road.receive(meanwhile=road.layer.flush)
    forgotten = dict(road.layer.groups)
    await road.receive(meanwhile=road.send)

    assert forgotten == {}
    assert road.audience.sequence == (7, 2)


async def test_a_frame_that_comes_late_is_not_shown_after_a_newer_one(road: Road) -> None:
    await road.receive()
    await road.outgoing.put(road.post())
    await road.outgoing.step()
    road.post()
    road.post()

    await road.receive()

    assert road.audience.sequence == (7, 3)


async def test_a_restarted_store_counts_from_one_again_and_its_pictures_are_newer(
    road: Road,
) -> None:
    shown = []
    for sequence in ((7, 40), (8, 1), (7, 41), (8, 1)):
        road.audience.show(sequence, lambda: Picture(road.post()))
        shown.append(road.audience.sequence)

    assert shown == [(7, 40), (8, 1), (8, 1), (8, 1)]
    assert road.audience.picture is not None
    assert road.audience.picture.snapshot["version"] == 2


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
