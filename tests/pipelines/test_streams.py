"""A stream tells of its batches without waiting, and is kept running while it is wanted."""

import json
import os
from typing import Any

import pytest

from apps.bridge.children import Program
from apps.bridge.exits import Exit
from apps.clockwork.claims import new_owner
from apps.engine.testing.manualclock import ManualClock
from apps.pipelines.models import StreamBatch
from apps.pipelines.services import presence
from apps.pipelines.spark import streams
from apps.pipelines.spark.streams import IDLE, Batch, StreamKeeper, Teller, lag_of


def offsets(**topics: list[int]) -> str:
    return json.dumps(
        {
            topic: {str(queue): at for queue, at in enumerate(found)}
            for topic, found in topics.items()
        }
    )


def test_the_lag_is_what_lies_between_the_end_of_a_batch_and_the_newest() -> None:
    end, newest = offsets(orders=[5, 9]), offsets(orders=[7, 9], payments=[4])

    assert lag_of([(end, newest)]) == 6
    assert lag_of([(newest, end)]) == 0


@pytest.mark.parametrize("newest", [None, "", "None", "null", "[]", "{", '{"orders": 3}'])
def test_a_lag_that_spark_does_not_tell_is_unknown(newest: str | None) -> None:
    assert lag_of([(offsets(orders=[5]), newest)]) is None


@pytest.mark.django_db
def test_a_stream_of_a_process_that_died_is_free_at_once_and_one_of_another_is_not() -> None:
    stream = presence.take_stream("ingest", new_owner())
    assert stream is not None

    presence.free_stream("ingest", os.getpid() + 1)
    assert presence.take_stream("ingest", "w") is None
    presence.free_stream("ingest", os.getpid())

    assert presence.take_stream("ingest", "w") is not None
    assert not presence.keep_stream(stream)


@pytest.mark.django_db
def test_batches_are_written_down_once_and_what_was_published_stays() -> None:
    stream = presence.take_stream("ingest", "w")
    assert stream is not None
    teller = Teller(stream)
    teller.write(Batch(number=3, rows=10, duration_ms=50, lag=7))
    StreamBatch.objects.update(rows=9)

    teller.write(Batch(number=3, rows=10, duration_ms=50, lag=2))

    stream.refresh_from_db()
    row = StreamBatch.objects.get()
    assert (row.number, row.rows, row.lag) == (3, 9, 2)
    assert (stream.batch, stream.lag) == (3, 2)

    teller.write(IDLE)
    stream.refresh_from_db()
    assert (stream.batch, stream.lag, StreamBatch.objects.count()) == (3, 0, 1)


def test_who_tells_never_waits_and_the_newest_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_TOLD_MAX", 3)
    teller = Teller(None)  # type: ignore[arg-type]
    written: list[int | None] = []
    monkeypatch.setattr(teller, "write", lambda batch: written.append(batch.number))

    for number in range(10):
        teller.put(Batch(number=number, rows=1, duration_ms=1, lag=None))
    while not teller._told.empty():
        batch = teller._told.get()
        assert batch is not None
        written.append(batch.number)

    assert written == [7, 8, 9]


class Child:
    """A child that ends when it is told to, or when the test says so."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.pid = 1
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code

    def send(self, _number: Any) -> None:
        self.code = 0

    def wait(self) -> int:
        assert self.code is not None
        return self.code


class World:
    """A keeper, what it is to keep, and what it has started."""

    def __init__(self) -> None:
        self.wanted = {"ingest"}
        self.clock = ManualClock()
        self.children: list[Child] = []
        self.gone: list[tuple[str, int]] = []
        self.keeper = StreamKeeper(
            wanted=lambda: self.wanted,
            program=lambda name: Program(name=name, command=[name]),
            clock=self.clock,
            died=lambda *gone: self.gone.append(gone),
            start=self.start,  # type: ignore[arg-type]
        )

    def start(self, program: Program) -> Child:
        self.children.append(Child(program))
        return self.children[-1]

    def starts_within(self, seconds: int) -> int:
        before = len(self.children)
        for _ in range(seconds):
            self.clock.advance(1_000)
            self.keeper.step()
        return len(self.children) - before


def test_a_wanted_stream_is_started_once_and_ended_when_it_is_not_wanted() -> None:
    world = World()
    assert world.starts_within(5) == 1

    world.wanted.clear()
    assert world.starts_within(5) == 0
    assert world.children[0].code == 0

    world.wanted.add("ingest")
    assert world.starts_within(1) == 1
    world.keeper.stop()
    assert world.children[1].code == 0


def test_a_stream_that_dies_is_started_again_with_pauses_that_double() -> None:
    world = World()
    world.starts_within(1)
    starts = []
    for _ in range(4):
        world.children[-1].code = 1
        starts.append([world.starts_within(1) for _ in range(10)].index(1))

    assert starts == [1, 2, 4, 8]
    assert world.gone == [("ingest", 1)] * 4
    world.clock.advance(60_000)
    world.children[-1].code = 1
    assert world.starts_within(2) == 1


@pytest.mark.parametrize("code", [Exit.HELD, Exit.LACKING])
def test_a_stream_that_cannot_run_here_is_tried_once_a_minute(code: Exit) -> None:
    world = World()
    world.starts_within(1)
    world.children[-1].code = code

    assert world.starts_within(55) == 0
    assert world.starts_within(10) == 1
