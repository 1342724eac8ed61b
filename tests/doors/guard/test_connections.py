"""How many connections there may be, and which are given up because they stand still."""

import logging

import pytest

from apps.doors.guard.connections import (
    BYTES_PER_S_MIN,
    ConnectionRules,
    Connections,
    Refusal,
    Stage,
    Standing,
)
from apps.engine.testing.manualclock import ManualClock

RULES = ConnectionRules(
    connections_max=3, client_connections_max=2, head_ms=5_000, body_ms=10_000, send_ms=20_000
)


class FakeConnection:
    """A connection that is at what a test says."""

    def __init__(self) -> None:
        self.now = Standing(Stage.OTHER, None, 0)
        self.given_up: list[Stage] = []

    def standing(self) -> Standing:
        return self.now

    def give_up(self, stage: Stage) -> None:
        self.given_up.append(stage)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def connections(clock: ManualClock) -> Connections:
    return Connections(RULES, clock)


def watch(connections: Connections, clock: ManualClock, seconds: int) -> None:
    for _ in range(seconds):
        clock.advance(1_000)
        connections.look()


def test_there_are_as_many_as_may_be_and_room_again_when_one_ends(
    connections: Connections, caplog: pytest.LogCaptureFixture, clock: ManualClock
) -> None:
    one, other, third = FakeConnection(), FakeConnection(), FakeConnection()
    with caplog.at_level(logging.WARNING):
        assert connections.open(one, "a") is None
        assert connections.open(other, "a") is None
        for _ in range(100):
            assert connections.open(FakeConnection(), "a") is Refusal.CLIENT
        assert connections.open(third, "b") is None
        assert connections.open(FakeConnection(), "b") is Refusal.ALL
        clock.advance(10_000)
        assert connections.open(FakeConnection(), "b") is Refusal.ALL

    lines = [record for record in caplog.records if record.message == "connections_refused"]
    assert [vars(line)["count"] for line in lines] == [1, 101]
    assert connections.refused == {Refusal.CLIENT: 100, Refusal.ALL: 2}
    connections.close(one)
    connections.close(one)
    assert connections.open(FakeConnection(), "a") is None


@pytest.mark.parametrize(
    ("stage", "patience_s"), [(Stage.HEAD, 5), (Stage.BODY, 10), (Stage.ANSWER, 20)]
)
def test_what_stands_still_for_its_time_is_given_up(
    connections: Connections, clock: ManualClock, stage: Stage, patience_s: int
) -> None:
    connection = FakeConnection()
    connections.open(connection, "a")
    connection.now = Standing(stage, "one", 7)

    watch(connections, clock, patience_s)
    assert connection.given_up == []
    watch(connections, clock, 1)

    assert connection.given_up == [stage]
    assert connections.given_up == {stage: 1}


@pytest.mark.parametrize("stage", [Stage.BODY, Stage.ANSWER])
@pytest.mark.parametrize(("share", "is_kept"), [(1, True), (0.5, False)])
def test_slow_is_not_still_but_a_drip_is(
    connections: Connections, clock: ManualClock, stage: Stage, share: float, is_kept: bool
) -> None:
    connection = FakeConnection()
    connections.open(connection, "a")
    for second in range(60):
        connection.now = Standing(stage, "one", int(second * BYTES_PER_S_MIN * share))
        watch(connections, clock, 1)

    assert bool(connection.given_up) is not is_kept


def test_a_head_has_its_time_whatever_drips_and_another_request_has_its_own(
    connections: Connections, clock: ManualClock
) -> None:
    connection = FakeConnection()
    connections.open(connection, "a")
    for second in range(30):
        connection.now = Standing(Stage.HEAD, f"request {second // 5}", second * 100_000)
        watch(connections, clock, 1)
    assert connection.given_up == []

    watch(connections, clock, 5)
    assert connection.given_up == [Stage.HEAD]


def test_who_waits_for_us_waits_for_as_long_as_it_takes(
    connections: Connections, clock: ManualClock
) -> None:
    connection = FakeConnection()
    connections.open(connection, "a")

    watch(connections, clock, 1_000)

    assert connection.given_up == []


def test_what_is_gone_without_a_word_is_forgotten(
    connections: Connections, clock: ManualClock
) -> None:
    connection = FakeConnection()
    connections.open(connection, "a")
    connection.now = Standing(Stage.OTHER, None, 0, is_gone=True)

    watch(connections, clock, 1)

    assert len(connections) == 0
