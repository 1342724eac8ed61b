"""Viewers: greeted at once, given what the feed built, and never a cost to the engine."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from apps.console import frames, relay, sockets
from apps.console.board import board
from apps.console.feed import Feed
from apps.console.relay import Incoming, Outgoing
from tests.web.console.fakes import POLYGLOT, FakeEngine, HandClock, Viewer, settle


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    # Here a machine under load is slow, and no viewer makes anybody wait.
    monkeypatch.setattr(relay, "SEND_S_MAX", 60.0)


async def beat(feed: Feed, engine: FakeEngine) -> None:
    """Do what feed and relay do once a second."""
    posted = feed.sample(engine.api)
    board.put(posted)
    outgoing, incoming = Outgoing(), Incoming()
    receiving = asyncio.create_task(incoming.step())
    await settle()
    await outgoing.put(posted.snapshot)
    await outgoing.step()
    await receiving


async def test_a_viewer_is_greeted_with_the_newest_picture_and_the_history(
    feed: Feed, engine: FakeEngine
) -> None:
    engine.add_topic("orders")
    for _ in range(3):
        await beat(feed, engine)
    viewer = Viewer()

    await viewer.arrive()
    frame = await viewer.frame()
    await viewer.leave()

    assert frame["version"] == 3
    assert [topic["name"] for topic in frame["topics"]] == ["orders"]
    assert len(frame["history"]) == 3


async def test_an_update_carries_no_history(feed: Feed, engine: FakeEngine) -> None:
    viewer = Viewer()
    await viewer.arrive()

    await beat(feed, engine)
    frame = await viewer.frame()
    await viewer.leave()

    assert frame["version"] == 1
    assert "history" not in frame


async def test_many_viewers_cost_the_engine_and_the_encoder_no_more_than_one(
    feed: Feed, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = []
    update = frames.update

    def counting_update(snapshot: Any) -> str:
        encoded.append(snapshot["version"])
        return update(snapshot)

    monkeypatch.setattr(frames, "update", counting_update)
    engine.add_topic("orders", queue_count=4)
    viewers = [Viewer() for _ in range(50)]
    for viewer in viewers:
        await viewer.arrive()
    before = engine.calls.copy()

    await beat(feed, engine)
    await beat(feed, engine)
    texts = [[await viewer.text(), await viewer.text()] for viewer in viewers]
    for viewer in viewers:
        await viewer.leave()

    assert before.total() == 0
    verbs = (
        "catalog", "status", "queue_ranges", "group_progress", "clients", "members", "backlog",
        "queue_locks", "history", "delay_levels", "delay_status", "transaction_status",
    )  # fmt: skip
    assert engine.calls == dict.fromkeys(verbs, 2)
    assert encoded == [1, 2]
    assert all(pair == texts[0] for pair in texts)


async def test_a_slow_viewer_gets_the_newest_update_and_not_the_missed_ones(
    feed: Feed, engine: FakeEngine
) -> None:
    gate = asyncio.Event()
    sent: list[str] = []

    async def slow_send(event: dict[str, Any]) -> None:
        if event["type"] == "websocket.send":
            await gate.wait()
            sent.append(event["text"])

    async with served(slow_send):
        for _ in range(150):  # More than the channel layer keeps for one channel.
            await beat(feed, engine)
            await settle()
        blocked = list(sent)
        gate.set()
        await settle()

    assert blocked == []
    assert [json.loads(text)["version"] for text in sent] == [1, 150]


async def test_a_viewer_who_vanishes_while_sent_to_leaves_nothing_behind(
    feed: Feed, engine: FakeEngine
) -> None:
    losses = []

    async def lost_send(event: dict[str, Any]) -> None:
        if event["type"] == "websocket.send":
            losses.append(event)
            raise OSError("peer is gone")

    async with served(lost_send):
        await beat(feed, engine)
        await settle()
    await beat(feed, engine)

    assert len(losses) == 1


class served:  # noqa: N801
    """Serve one socket by hand with a `send` of the test's own, and end it cleanly."""

    def __init__(self, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        self.send = send
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def __aenter__(self) -> None:
        self.inbox.put_nowait({"type": "websocket.connect"})
        scope = {"type": "websocket", "path": "/ws/overview/", "headers": []}
        serve = sockets.overview(scope, self.inbox.get, self.send)
        self.task = asyncio.create_task(serve)
        await settle()

    async def __aexit__(self, *_: object) -> None:
        self.inbox.put_nowait({"type": "websocket.disconnect", "code": 1001})
        await self.task
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_viewer_who_speaks_is_shown_the_door(feed: Feed, engine: FakeEngine) -> None:
    viewer = Viewer()
    await viewer.arrive()

    await viewer.socket.send_input({"type": "websocket.receive", "text": "subscribe *"})
    event = await viewer.socket.receive_output()
    await viewer.leave()

    assert event == {"type": "websocket.close", "code": sockets.POLICY_VIOLATION}
    assert engine.calls.total() == 0


async def test_hostile_names_travel_as_data(feed: Feed, engine: FakeEngine) -> None:
    engine.add_topic(POLYGLOT)
    engine.consume(POLYGLOT, POLYGLOT, 0, upto=0)
    viewer = Viewer()
    await viewer.arrive()

    await beat(feed, engine)
    frame = await viewer.frame()
    await viewer.leave()

    assert frame["topics"][0]["name"] == POLYGLOT
    assert frame["groups"][0]["name"] == POLYGLOT


def test_a_frame_is_cut_where_it_would_be_too_large_and_says_so(
    feed: Feed, engine: FakeEngine
) -> None:
    for number in range(frames.TOPICS_MAX + 1):
        engine.add_topic(f"topic-{number:04}", queue_count=6)

    shown = frames.shown(feed.sample(engine.api).snapshot)

    assert len(shown["topics"]) == frames.TOPICS_MAX
    assert shown["is_cut"]
    assert all(topic["queues"] is None for topic in shown["topics"])
    assert shown["totals"]["topic_count"] == frames.TOPICS_MAX + 1


def test_a_small_frame_is_whole(feed: Feed, engine: FakeEngine, clock: HandClock) -> None:
    engine.add_topic("orders", queue_count=4)

    snapshot = feed.sample(engine.api).snapshot
    shown = frames.shown(snapshot)

    assert shown == {**snapshot, "is_cut": False}
