"""What the feed makes of an engine, and that it goes on whatever happens."""

import asyncio
import logging
from typing import Any

import pytest

from apps.console import feed as feeds
from apps.console.board import Board
from apps.console.clockwork import ClockworkWatch
from apps.console.deathwatch import DeathWatch
from apps.console.feed import Feed
from apps.console.pipelines.watch import PipelinesWatch
from apps.console.snapshot import Snapshot
from apps.console.sparklines import LastHour
from apps.engine.errors import Stopping
from apps.engine.litetypes import LiteTotal
from apps.engine.types import EngineStatus
from tests.web.console.fakes import FakeEngine, HandClock
from tests.web.group_values import left_in_lites


def test_a_picture_adds_up(feed: Feed, engine: FakeEngine, clock: HandClock) -> None:
    engine.add_topic("orders", queue_count=2)
    engine.send("orders", 0, 10)
    engine.send("orders", 1, 20)
    engine.consume("billing", "orders", 0, upto=4, in_flight=2)
    feed.sample(engine.api)
    engine.send("orders", 1, 30)
    engine.consume("billing", "orders", 0, upto=9, in_flight=1)
    clock.now_ms += 1_000

    snapshot = feed.sample(engine.api).snapshot

    topic, group = snapshot["topics"][0], snapshot["groups"][0]
    assert topic["held"] == 60
    assert topic["send_rate"] == 30
    assert [queue["max_offset"] for queue in topic["queues"] or ()] == [10, 50]
    assert group["lag"] == 1
    assert group["in_flight"] == 1
    assert group["consume_rate"] == 5
    assert snapshot["totals"]["send_rate"] == 30
    assert snapshot["totals"]["consume_rate"] == 5
    assert snapshot["totals"]["lag"] == 1
    assert snapshot["totals"]["queue_count"] == 2
    assert snapshot["store"]["recovery"]["cut_bytes"] == 88
    assert snapshot["sampled_at"] == "2025-11-13T02:30:01.000Z"


def test_lite_topics_are_one_row_of_a_group_and_part_of_its_sums(
    feed: Feed, engine: FakeEngine, clock: HandClock
) -> None:
    engine.add_topic("inbox")
    engine.left_in_lites = [left_in_lites("phones", lag=1_000)]
    engine.in_lites = {"inbox": LiteTotal(came=0, held=2_000)}
    feed.sample(engine.api)
    engine.left_in_lites = [left_in_lites("phones", arrived=2_300)]
    engine.in_lites = {"inbox": LiteTotal(came=300, held=2_300)}
    clock.now_ms += 1_000

    snapshot = feed.sample(engine.api).snapshot

    (group,) = snapshot["groups"]
    (row,) = group["queues"]
    assert (row["topic"], row["queue"], str(row["kind"])) == (
        "inbox",
        None,
        "lite topics behind: 312",
    )
    assert (row["lag"], row["committed"], row["delivered"]) == (1_204, 1_096, 1_100)
    assert (group["lag"], group["in_flight"], group["retry_lag"]) == (1_204, 4, 0)
    assert (group["consume_rate"], group["lag_trend"]) == (96, "rising")
    assert (snapshot["totals"]["lag"], snapshot["totals"]["in_flight"]) == (1_204, 4)
    (topic,) = snapshot["topics"]
    assert (topic["send_rate"], topic["held"]) == (300, 2_300)
    assert snapshot["totals"]["send_rate"] == 300


def test_lite_topics_that_are_not_counted_yet_make_sums_unknown(
    feed: Feed, engine: FakeEngine
) -> None:
    engine.add_topic("orders")
    engine.consume("phones", "orders", 0, upto=0)
    engine.left_in_lites = [left_in_lites("phones", lag=None)]

    snapshot = feed.sample(engine.api).snapshot

    (group,) = snapshot["groups"]
    assert [str(row["kind"]) for row in group["queues"]] == ["", "lite topics, not counted yet"]
    assert (group["lag"], group["in_flight"], group["retry_lag"]) == (None, None, 0)
    assert (snapshot["totals"]["lag"], snapshot["totals"]["in_flight"]) == (None, None)


def test_versions_grow_by_one(feed: Feed, engine: FakeEngine) -> None:
    versions = [feed.sample(engine.api).snapshot["version"] for _ in range(3)]

    assert versions == [1, 2, 3]


def test_rates_of_the_first_picture_are_unknown_and_not_zero(
    feed: Feed, engine: FakeEngine
) -> None:
    engine.add_topic("orders")
    engine.consume("billing", "orders", 0, upto=0)

    snapshot = feed.sample(engine.api).snapshot

    assert snapshot["totals"]["send_rate"] is None
    assert snapshot["topics"][0]["send_rate"] is None
    assert snapshot["groups"][0]["consume_rate"] is None
    assert snapshot["groups"][0]["lag_trend"] == "steady"


def test_without_groups_there_is_no_lag_to_speak_of(feed: Feed, engine: FakeEngine) -> None:
    engine.add_topic("orders")

    totals = feed.sample(engine.api).snapshot["totals"]

    assert totals["lag"] is None
    assert totals["lag_level"] == "unknown"


def test_a_topic_whose_queues_are_not_made_yet_is_unknown_and_hides_no_other(
    feed: Feed, engine: FakeEngine
) -> None:
    engine.add_topic("made")
    engine.send("made", 0, 3)
    engine.add_topic("unmade")
    engine.unmade.add("unmade")

    snapshot = feed.sample(engine.api).snapshot

    assert [topic["held"] for topic in snapshot["topics"]] == [3, None]
    assert snapshot["topics"][1]["queues"] is None
    assert snapshot["totals"]["held"] is None


def test_a_queue_seen_for_the_first_time_makes_no_false_rate(
    feed: Feed, engine: FakeEngine, clock: HandClock
) -> None:
    engine.add_topic("orders", queue_count=2)
    engine.send("orders", 1, 1_000_000)
    engine.consume("billing", "orders", 0, upto=0)
    feed.sample(engine.api)
    engine.consume("billing", "orders", 1, upto=1_000_000)
    clock.now_ms += 1_000

    group = feed.sample(engine.api).snapshot["groups"][0]

    assert group["consume_rate"] == 0


def test_the_history_is_short_and_ends_with_the_picture(
    feed: Feed, engine: FakeEngine, clock: HandClock
) -> None:
    for _ in range(feeds.HISTORY_POINTS_MAX + 5):
        clock.now_ms += 1_000
        posted = feed.sample(engine.api)

    assert len(posted.history) == feeds.HISTORY_POINTS_MAX
    assert posted.history[-1] == feeds.point_of(posted.snapshot)
    assert posted.history[-1][0] - posted.history[0][0] == 299_000


def test_a_post_gets_stale_by_the_monotonic_clock(
    feed: Feed, engine: FakeEngine, clock: HandClock
) -> None:
    posted = feed.sample(engine.api)
    fresh = posted.is_stale()

    clock.now_ms += 5_001

    assert not fresh
    assert posted.is_stale()


class Stage:
    """Runs the feed for a number of beats and keeps what it published."""

    def __init__(self, engine: FakeEngine, clock: HandClock, *, beats: int) -> None:
        self.engine = engine
        self.clock = clock
        self.beats = beats
        self.board = Board()
        self.published: list[Snapshot] = []
        self.pauses_s: list[float] = []

    async def publish(self, snapshot: Snapshot) -> None:
        self.published.append(snapshot)

    async def sleep(self, seconds: float) -> None:
        self.pauses_s.append(seconds)
        self.clock.now_ms += round(seconds * 1_000)
        if len(self.pauses_s) >= self.beats:
            raise asyncio.CancelledError

    async def play(self, **changes: Any) -> None:
        with pytest.raises(asyncio.CancelledError):
            await feeds.run(
                self.engine.api,
                clock=self.clock,
                clockwork=ClockworkWatch(clock=self.clock, worker_processes=2),
                last_hour=LastHour(),
                deaths=DeathWatch(clock=self.clock),
                pipelines=PipelinesWatch(clock=self.clock),
                sleep=self.sleep,
                publish=changes.get("publish", self.publish),
                is_watched=changes.get("is_watched", lambda: True),
                board=self.board,
            )


async def test_the_feed_publishes_at_once_and_then_each_second(
    engine: FakeEngine, clock: HandClock
) -> None:
    stage = Stage(engine, clock, beats=3)

    await stage.play()

    assert [snapshot["version"] for snapshot in stage.published] == [1, 2, 3]
    assert stage.pauses_s == [1.0, 1.0, 1.0]
    assert engine.calls["status"] == 3


async def test_while_nobody_watches_readings_are_rarer(
    engine: FakeEngine, clock: HandClock
) -> None:
    stage = Stage(engine, clock, beats=5)

    await stage.play(is_watched=lambda: False)

    assert stage.pauses_s == [1.0] * 5
    assert engine.calls["status"] == 2


async def test_who_comes_to_watch_waits_a_second_at_most(
    engine: FakeEngine, clock: HandClock
) -> None:
    stage = Stage(engine, clock, beats=4)

    await stage.play(is_watched=lambda: len(stage.pauses_s) >= 2)

    assert stage.pauses_s == [1.0] * 4
    assert engine.calls["status"] == 3


async def test_time_spent_publishing_is_taken_from_the_pause(
    engine: FakeEngine, clock: HandClock
) -> None:
    stage = Stage(engine, clock, beats=2)

    async def slow(snapshot: Snapshot) -> None:
        clock.now_ms += 400 if snapshot["version"] == 1 else 5_000

    await stage.play(publish=slow)

    assert stage.pauses_s == [0.6, 0]


@pytest.mark.parametrize(
    ("reading_ms", "interval_ms"), [(0, 1_000), (20, 1_000), (60, 3_000), (500, 4_000)]
)
async def test_a_reading_that_takes_long_makes_readings_rarer(
    engine: FakeEngine,
    clock: HandClock,
    monkeypatch: pytest.MonkeyPatch,
    reading_ms: int,
    interval_ms: int,
) -> None:
    stage = Stage(engine, clock, beats=1)
    status = engine.status

    def slow_status() -> EngineStatus:
        clock.now_ms += reading_ms
        return status()

    monkeypatch.setattr(engine, "status", slow_status)

    await stage.play()

    assert stage.pauses_s == [(interval_ms - reading_ms) / 1_000]


async def test_a_stopped_feed_says_that_no_engine_is_open(
    engine: FakeEngine, clock: HandClock
) -> None:
    stage = Stage(engine, clock, beats=1)
    posts = []

    async def look(_: Snapshot) -> None:
        posts.append(stage.board.latest())

    await stage.play(publish=look)

    assert posts[0] is not None
    assert stage.board.latest() is None


async def test_a_failing_layer_is_logged_once_and_pages_stay_fresh(
    engine: FakeEngine, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(engine, clock, beats=3)
    versions = []

    async def fail(_: Snapshot) -> None:
        posted = stage.board.latest()
        versions.append(posted and posted.snapshot["version"])
        raise ConnectionError("the layer is away")

    with caplog.at_level(logging.ERROR):
        await stage.play(publish=fail)

    assert versions == [1, 2, 3]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "the layer is away" in caplog.text


async def test_an_engine_that_refuses_a_reading_leaves_the_last_one_to_go_stale(
    engine: FakeEngine, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(engine, clock, beats=3)
    status, refusals = engine.status, []

    def refuse_the_second() -> object:
        if engine.calls["catalog"] == 2:
            refusals.append(True)
            raise Stopping("closing")
        return status()

    monkeypatch.setattr(engine, "status", refuse_the_second)

    await stage.play()

    assert refusals == [True]
    assert [snapshot["version"] for snapshot in stage.published] == [1, 2]
