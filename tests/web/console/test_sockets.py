"""Viewers: greeted at once, given what the feed built, and never a cost to the engine."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from apps.access.gate import Denied
from apps.console import audience as audiences
from apps.console import frames, relay, sockets
from apps.console.audience import AT_ONCE, audience
from apps.console.board import board
from apps.console.feed import Feed
from apps.console.picture import Picture
from apps.console.projections import is_view
from apps.console.relay import Incoming, Outgoing
from apps.core.languages import Language
from tests.web.console.fakes import POLYGLOT, FakeEngine, HandClock, Viewer, settle
from tests.web.console.live import Missing


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

    assert frame["kind"] == "whole"
    assert [topic["name"] for topic in frame["topics"]] == ["orders"]
    assert viewer.held.history is not None
    assert len(viewer.held.history) == 3


async def test_what_comes_next_is_what_has_changed(feed: Feed, engine: FakeEngine) -> None:
    engine.add_topic("orders")
    engine.add_topic("bills")
    await beat(feed, engine)
    viewer = Viewer()
    await viewer.arrive()
    first = json.loads(await viewer.text())
    viewer.held.take(first)
    engine.send("orders", 0, 7)

    await beat(feed, engine)
    text = await viewer.text()
    shown = viewer.held.take(json.loads(text))
    await viewer.leave()

    frame = json.loads(text)
    assert (frame["kind"], frame["version"]) == ("delta", first["version"] + 1)
    assert len(text) < len(json.dumps(first)) / 3
    assert "bills" not in text
    assert [topic["held"] for topic in shown["topics"]] == [0, 7]


async def test_what_is_shown_after_many_changes_is_what_a_newcomer_is_shown(
    feed: Feed, engine: FakeEngine, clock: HandClock
) -> None:
    viewer = Viewer()
    await viewer.arrive()
    kinds = []
    for number in range(12):
        clock.now_ms += 1_000
        if number % 3 == 0:
            engine.add_topic(f"topic-{number}", queue_count=2)
        engine.send("topic-0", number % 2, number)
        engine.consume("billing", "topic-0", 0, upto=number)
        if number == 7:
            del engine.specs["topic-3"]
        await beat(feed, engine)
        shown = await viewer.frame()
        kinds.append(shown["kind"])
    newcomer = Viewer()
    await newcomer.arrive()
    whole = await newcomer.frame()
    await viewer.leave()
    await newcomer.leave()

    assert kinds == ["whole", *["delta"] * 11]
    assert {**shown, "kind": "whole"} == whole


async def test_many_viewers_cost_the_engine_and_the_encoder_no_more_than_one(
    feed: Feed, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = []
    text_of = frames._text

    def counting(frame: dict[str, Any], language: Language) -> str:
        encoded.append((frame["kind"], frame["view"], frame["version"]))
        return text_of(frame, language)

    monkeypatch.setattr(frames, "_text", counting)
    engine.add_topic("orders", queue_count=4)
    viewers = [Viewer() for _ in range(50)]
    for viewer in viewers:
        await viewer.arrive()
    before = engine.calls.copy()

    await beat(feed, engine)
    first = [await viewer.text() for viewer in viewers]
    await beat(feed, engine)
    second = [await viewer.text() for viewer in viewers]
    for viewer in viewers:
        await viewer.leave()

    assert before.total() == 0
    verbs = (
        "catalog", "status", "queue_ranges", "group_progress", "clients", "members", "backlog",
        "queue_locks", "history", "delay_levels", "delay_status", "transaction_status",
        "lite_backlog", "lite_totals",
    )  # fmt: skip
    assert engine.calls == dict.fromkeys(verbs, 2)
    assert encoded == [("whole", "overview", 1), ("delta", "overview", 2)]
    assert set(first) == {first[0]}
    assert set(second) == {second[0]}


async def test_a_view_that_nobody_watches_costs_nothing(feed: Feed, engine: FakeEngine) -> None:
    viewer = Viewer("locks")
    await viewer.arrive()
    await beat(feed, engine)
    watched = {view for view, _ in audience._channels}
    await viewer.leave()
    await beat(feed, engine)

    assert watched == {"locks"}
    assert audience._channels == {}
    assert not audience.is_there


async def test_where_nearly_everything_changes_all_of_it_is_sent_until_less_is_enough(
    feed: Feed, engine: FakeEngine, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audiences, "LARGE_CHARACTERS", 200)
    engine.add_topic("orders", queue_count=20)
    compared = []
    delta_of = audiences.delta_of

    def counting(old: Any, new: Any) -> Any:
        compared.append(new["sampled_at_ms"])
        return delta_of(old, new)

    monkeypatch.setattr(audiences, "delta_of", counting)
    viewer = Viewer("topic.orders")
    await viewer.arrive()
    kinds = []
    for number in range(2 * audiences.LOOK_AGAIN):
        clock.now_ms += 1_000
        if number < 5:
            for queue in range(20):
                engine.send("orders", queue, 1_000 * number)
        await beat(feed, engine)
        kinds.append((await viewer.frame())["kind"])
    await viewer.leave()

    assert kinds[: audiences.LOOK_AGAIN + 1] == ["whole"] * (audiences.LOOK_AGAIN + 1)
    assert set(kinds[audiences.LOOK_AGAIN + 1 :]) == {"delta"}
    assert len(compared) == audiences.LOOK_AGAIN


async def test_many_viewers_are_told_a_few_at_a_time(
    feed: Feed, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[Callable[[], None]] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda _, then: pauses.append(then), raising=False)
    with contextlib.ExitStack() as joined:
        watchers = [joined.enter_context(audience.joined("locks")) for _ in range(AT_ONCE + 5)]
        posted = feed.sample(engine.api)

        audience.show((1, 1), lambda: Picture(posted.snapshot))
        first = sum(watcher.news.is_set() for watcher in watchers)
        pauses.pop()()
        then = sum(watcher.news.is_set() for watcher in watchers)

    assert (first, then, pauses) == (AT_ONCE, AT_ONCE + 5, [])


async def test_a_slow_viewer_gets_all_of_the_newest_and_not_what_it_missed(
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
    told = [json.loads(text) for text in sent]
    assert [(one["kind"], one["version"]) for one in told] == [("whole", 1), ("whole", 150)]


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


async def closed(viewer: Viewer) -> int:
    """Return the code with which the server closes."""
    while True:
        event = await viewer.socket.receive_output()
        if event["type"] == "websocket.close":
            return int(event["code"])


async def test_a_viewer_who_says_anything_else_is_shown_the_door(
    feed: Feed, engine: FakeEngine
) -> None:
    viewer = Viewer()
    await viewer.arrive()

    await viewer.socket.send_input({"type": "websocket.receive", "text": "subscribe *"})
    code = await closed(viewer)
    await viewer.leave()

    assert code == sockets.POLICY_VIOLATION
    assert engine.calls.total() == 0


async def test_a_viewer_who_missed_something_is_given_all_of_it(
    feed: Feed, engine: FakeEngine
) -> None:
    viewer = Viewer()
    await viewer.arrive()
    await beat(feed, engine)
    await viewer.frame()
    await beat(feed, engine)
    await viewer.text()  # Lost on the way.
    await beat(feed, engine)
    with pytest.raises(Missing):
        await viewer.frame()

    await viewer.socket.send_input({"type": "websocket.receive", "text": sockets.RESYNC})
    again = await viewer.frame()
    await viewer.leave()

    assert (again["kind"], again["version"]) == ("whole", 3)


async def test_a_viewer_who_asks_for_all_of_it_too_often_is_shown_the_door(
    feed: Feed, engine: FakeEngine
) -> None:
    viewer = Viewer()
    await viewer.arrive()

    for _ in range(2):
        await viewer.socket.send_input({"type": "websocket.receive", "text": sockets.RESYNC})
    code = await closed(viewer)
    await viewer.leave()

    assert code == sockets.POLICY_VIOLATION


@pytest.mark.parametrize(
    "view", ["", "x", "overview.x", "group", "group.", f"topic.{'x' * 600}", "__class__.x"]
)
async def test_a_view_that_there_is_not_is_refused(view: str) -> None:
    viewer = Viewer(view)
    await viewer.arrive()

    code = await closed(viewer)
    await viewer.socket.wait()

    assert code == sockets.UNKNOWN_VIEW


async def test_a_query_that_makes_no_sense_names_no_view() -> None:
    queries = [b"", b"view", b"view=", b"&".join([b"view=overview"] * 9), b"%ff%fe&view=\xff"]

    assert [is_view(sockets._asked_view(query)) for query in queries] == [False] * len(queries)
    assert sockets._asked_view(b"view=group.%C3%BC%26%2B") == "group.\u00fc&+"


async def test_each_subscription_is_asked_for_at_one_place(
    monkeypatch: pytest.MonkeyPatch, feed: Feed, engine: FakeEngine
) -> None:
    asked = []

    def deny(scope: dict[str, Any], view: str) -> bool:
        asked.append((scope["path"], view))
        raise Denied("forbidden", "no right")

    monkeypatch.setattr(sockets, "sight_on", deny)
    viewer = Viewer("group.billing")
    await viewer.arrive()

    code = await closed(viewer)
    await viewer.socket.wait()

    assert asked == [("/ws/live/", "group.billing")]
    assert code == sockets.FORBIDDEN
    assert not audience.is_there


async def test_more_viewers_than_there_is_room_for_are_asked_to_come_later(
    monkeypatch: pytest.MonkeyPatch, feed: Feed
) -> None:
    monkeypatch.setattr(sockets, "VIEWERS_MAX", 1)
    first, second = Viewer(), Viewer()
    await first.arrive()
    await second.arrive()

    code = await closed(second)
    await second.socket.wait()
    await first.leave()

    assert code == sockets.TRY_AGAIN_LATER


async def test_a_topic_and_a_group_are_pushed_by_themselves(feed: Feed, engine: FakeEngine) -> None:
    engine.add_topic("orders")
    engine.add_topic("bills")
    engine.send("orders", 0, 9)
    engine.consume("billing", "orders", 0, upto=4)
    viewers = [Viewer("topic.orders"), Viewer("group.billing"), Viewer("group.nobody")]
    for viewer in viewers:
        await viewer.arrive()

    await beat(feed, engine)
    topic, group, nobody = [await viewer.frame() for viewer in viewers]
    for viewer in viewers:
        await viewer.leave()

    assert (topic["held"], topic["readers"][0]["id"], group["lag"]) == (9, "billing/0", 5)
    assert "groups" not in topic
    assert (nobody["known"], nobody["kind"]) == ("still", "whole")


async def test_a_frame_that_would_be_too_long_leaves_the_page_as_it_is(
    feed: Feed, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "FRAME_CHARACTERS_MAX", 400)
    engine.add_topic("orders")
    viewers = [Viewer(), Viewer()]
    for viewer in viewers:
        await viewer.arrive()

    seen: list[list[tuple[str, str, bool]]] = [[], []]
    for characters_max in (400, 400, 100_000, 100_000):
        monkeypatch.setattr(frames, "FRAME_CHARACTERS_MAX", characters_max)
        await beat(feed, engine)
        for number, viewer in enumerate(viewers):
            shown = await viewer.frame()
            seen[number].append((shown["known"], shown["kind"], "topics" in shown))
    for viewer in viewers:
        await viewer.leave()

    too_much, enough = ("still", "whole", False), ("live", "whole", True)
    assert seen == [[too_much, too_much, enough, ("live", "delta", True)]] * 2


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
