"""Runs and streams live: one reading for all viewers, as often as something goes on."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError

from apps.console.audience import audience
from apps.console.board import board
from apps.console.clockwork import ClockworkWatch
from apps.console.deathwatch import DeathWatch
from apps.console.feed import Feed
from apps.console.pipelines.watch import (
    FOLLOWED_MS,
    IDLE_EVERY_MS,
    OLD_AFTER_MS,
    PipelinesWatch,
    Sight,
    look,
    picture_of,
)
from apps.console.sparklines import LastHour
from apps.pipelines.catalogue import JOBS
from apps.pipelines.models import PipelineRun, PipelineStream, StreamBatch
from tests.web.console.fakes import POLYGLOT, FakeEngine, HandClock, Viewer
from tests.web.console.test_sockets import beat
from tests.web.console.texts import worded
from tests.web.pipelines.rows import NOW, run

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def watch(clock: HandClock) -> PipelinesWatch:
    return PipelinesWatch(clock=clock)


def rows_of(watch: PipelinesWatch, name: str) -> list[dict[str, Any]]:
    found: Any = watch.picture()
    return list(found[name])


def test_before_the_first_reading_nothing_is_known(watch: PipelinesWatch) -> None:
    picture = watch.picture()

    assert (picture["state"], picture["jobs"], picture["running"]) == ("not known", None, None)
    assert watch.is_due()


def test_a_run_that_goes_on_says_how_far_it_is_and_for_how_long(
    watch: PipelinesWatch, clock: HandClock
) -> None:
    made = run(
        "loss", state="running", stage="reading inputs", percent=43.2, rows_expected=500,
        stage_rows_read=216, started_at=NOW - 9 * SECOND, cpu_ms=1_200,
    )  # fmt: skip

    watch.take(look)

    (shown,) = rows_of(watch, "running")
    assert (shown["id"], shown["stage"], shown["percent"]) == (made.pk, "reading inputs", 43)
    assert (shown["rows_expected"], shown["elapsed_ms"], shown["cpu_ms"]) == (500, 9_000, 1_200)
    assert shown["rows_so_far"] == 216
    assert worded(shown["state_said"]) == "running 43 %"
    (job,) = [row for row in rows_of(watch, "jobs") if row["name"] == "loss"]
    assert (worded(job["said"]), job["last"]["id"]) == ("running 43 %", made.pk)
    assert len(rows_of(watch, "jobs")) == len(JOBS)


def test_a_run_that_ended_is_told_of_until_every_page_has_seen_it(
    watch: PipelinesWatch, clock: HandClock
) -> None:
    made = run("loss", state="running", started_at=NOW)
    watch.take(look)
    before = rows_of(watch, "running")[0]["revision"]
    PipelineRun.objects.update(state="failed", ended_at=NOW, duration_ms=7)

    clock.now_ms += 1_000
    watch.take(look)
    (ended,) = rows_of(watch, "lately")
    clock.now_ms += FOLLOWED_MS
    watch.take(look)

    assert (ended["id"], ended["state"], ended["elapsed_ms"]) == (made.pk, "failed", 7)
    assert ended["revision"] != before
    assert rows_of(watch, "lately") == []


def test_readings_come_every_second_while_something_runs_and_are_rarer_otherwise(
    watch: PipelinesWatch, clock: HandClock
) -> None:
    made = run("loss", state="running", started_at=NOW)
    watch.take(look)
    while_it_runs = watch.is_due()
    PipelineRun.objects.filter(pk=made.pk).update(state="done", ended_at=NOW)
    clock.now_ms += FOLLOWED_MS
    watch.take(look)
    at_once = watch.is_due()
    clock.now_ms += IDLE_EVERY_MS
    later = watch.is_due()
    PipelineStream.objects.create(name="ingest", worker="w", lease_ends_at=NOW, started_at=NOW)
    watch.take(look)

    assert (while_it_runs, at_once, later, watch.is_due()) == (True, False, True, True)


def test_a_stream_tells_its_last_batch_its_rows_a_second_and_its_lag_while_it_runs() -> None:
    for name, started_s, lease_s in (
        ("long", 600, 20), ("new", 10, 20), ("never", None, 20), ("silent", 600, -5),
    ):  # fmt: skip
        stream = PipelineStream.objects.create(
            name=name, lag=5, batch=2, topics=["a", "b"],
            worker="w", lease_ends_at=NOW + lease_s * SECOND,
            started_at=None if started_s is None else NOW - started_s * SECOND,
            updated_at=NOW,
        )  # fmt: skip
        # The batch that goes on is published before Spark tells of it.
        for number, ago_s in enumerate((90, 8, 4, 3)):
            StreamBatch.objects.create(
                stream=stream, number=number, rows=400 + number, duration_ms=9,
                ended_at=NOW - ago_s * SECOND,
            )  # fmt: skip
    PipelineStream.objects.create(name="young", worker="w", lease_ends_at=NOW + SECOND)

    streams: Any = picture_of(look(NOW))["streams"]

    rates = {"long": 1206 / 60, "new": 120.6, "never": None, "silent": None, "young": None}
    assert {row["name"]: row["rate"] for row in streams} == pytest.approx(rates)
    lags = {"long": 5, "new": 5, "never": 5, "silent": None, "young": None}
    assert {row["name"]: row["lag"] for row in streams} == lags
    batch = ("batch", "batch_rows", "batch_ms", "batch_s")
    told = {row["name"]: [row[name] for name in batch] for row in streams}
    assert told == {name: [3, 403, 9, 3] for name in rates} | {"young": [None] * 4}
    assert [worded(row["topics"]) for row in streams] == ["a, b"] * 4 + ["all"]


def test_a_database_that_is_away_makes_the_rows_stale_and_never_young(
    watch: PipelinesWatch, clock: HandClock
) -> None:
    run("loss", state="running", started_at=NOW)
    watch.take(look)
    asked = []

    def away(now: datetime, also: Collection[int]) -> Sight:
        asked.append(now)
        raise OperationalError("away")

    clock.now_ms += OLD_AFTER_MS + 1
    with pytest.raises(OperationalError):
        watch.take(away)

    picture = watch.picture()
    assert asked
    assert (picture["state"], worded(picture["note"])) == (
        "stale",
        "as of 10 s ago: the database is away",
    )
    assert picture["running"]


def test_a_reading_costs_the_same_however_many_runs_there_are(
    watch: PipelinesWatch, django_assert_max_num_queries: Any
) -> None:
    for hours_ago in range(1, 30):
        run("loss", hours_ago=hours_ago)
        run("skew", hours_ago=hours_ago, state="failed")

    with django_assert_max_num_queries(8):
        watch.take(look)

    (loss,) = [row for row in rows_of(watch, "jobs") if row["name"] == "loss"]
    assert loss["last"]["state"] == "done"
    assert loss["trend"].startswith("M")
    assert len(rows_of(watch, "runs")) == 10


async def test_viewers_are_pushed_how_far_a_run_is(watch: PipelinesWatch, clock: HandClock) -> None:
    feed = Feed(
        clock=clock,
        clockwork=ClockworkWatch(clock=clock, worker_processes=2),
        last_hour=LastHour(),
        deaths=DeathWatch(clock=clock),
        pipelines=watch,
    )
    engine = FakeEngine()
    audience.clear()
    board.put(feed.sample(engine.api))
    viewer = Viewer("runs")
    of_run = Viewer("run.3")
    await viewer.arrive()
    await of_run.arrive()

    greeting = await viewer.frame()
    going_on = PipelineRun(
        pk=3, job="loss", window_start=NOW - SECOND, window_end=NOW, trigger="person",
        requested_by="ada", requested_at=NOW, state="running", started_at=NOW,
        percent=10, stage=POLYGLOT,
    )  # fmt: skip
    watch.take(lambda now, _: seen(now, going_on))
    await beat(feed, engine)
    update = await viewer.frame()
    nothing, whole = await of_run.frame(), await of_run.frame()
    await viewer.leave()
    await of_run.leave()
    audience.clear()

    assert (greeting["known"], update["known"]) == ("still", "live")
    assert (nothing["known"], whole["known"], whole["percent"]) == ("still", "live", 10)
    (shown,) = update["runs"]
    assert (shown["id"], shown["percent"], shown["stage"]) == (3, 10, POLYGLOT)
    assert update["version"] == greeting["version"] + 1


def seen(now: datetime, *runs: PipelineRun) -> Sight:
    return Sight(at=now, jobs=(), followed=runs, newest=runs, streams=(), paces={})
