"""The wall clock is set while messages wait: never early by the later of both reckonings."""

from dataclasses import dataclass

import numpy as np
import pytest

from apps.engine.broker.core import Broker
from apps.engine.testing.manualclock import ManualClock
from tests.engine.broker.delayed import TINY, Store, bodies, deliver, move, send_at, sync

HOUR_MS = 3_600_000


@dataclass(slots=True)
class Waiting:
    """A message that is asked for in a minute, and the clock that is set meanwhile."""

    store: Store
    broker: Broker

    @property
    def clock(self) -> ManualClock:
        return self.store.clock

    def jump(self, ms: int) -> None:
        """Set the wall clock; somebody looks at it before anything is delivered."""
        self.clock.set_wall(self.clock.wall_ms() + ms)
        deliver(self.broker)

    def is_there_after(self, ms: int) -> list[str]:
        self.clock.advance(ms)
        deliver(self.broker)
        return bodies(self.broker)


@pytest.fixture
def waiting() -> Waiting:
    store = Store()
    broker = store.open()
    send_at(broker, {"a": store.clock.wall_ms() + 60_000})
    return Waiting(store, broker)


def test_a_clock_that_is_set_ahead_releases_nothing(waiting: Waiting) -> None:
    waiting.jump(HOUR_MS)

    assert waiting.is_there_after(59_999) == []
    assert waiting.broker.delaylist.status().clock_held_ms == HOUR_MS
    assert waiting.is_there_after(1) == ["a"]


def test_a_clock_that_is_set_back_makes_messages_wait_for_it(waiting: Waiting) -> None:
    waiting.jump(-HOUR_MS)

    assert waiting.is_there_after(60_000 + HOUR_MS - 1) == []
    assert waiting.is_there_after(1) == ["a"]


@pytest.mark.parametrize("first_ms", [HOUR_MS, -HOUR_MS])
def test_a_clock_that_is_set_and_set_right_again_changes_nothing(
    waiting: Waiting, first_ms: int
) -> None:
    waiting.jump(first_ms)
    waiting.jump(-first_ms)

    assert waiting.is_there_after(59_999) == []
    assert waiting.is_there_after(1) == ["a"]


def test_a_small_step_is_none(waiting: Waiting) -> None:
    waiting.jump(1_000)

    assert waiting.broker.state.timers.jumps == []
    assert waiting.is_there_after(59_000) == ["a"]


def test_what_comes_after_a_jump_waits_by_the_new_clock(waiting: Waiting) -> None:
    waiting.jump(HOUR_MS)
    send_at(waiting.broker, {"b": waiting.clock.wall_ms() + 30_000})

    assert waiting.is_there_after(29_999) == []
    assert waiting.is_there_after(1) == ["b"]
    assert waiting.is_there_after(30_000) == ["b", "a"]


def test_a_message_that_comes_with_the_jump_is_not_taken_for_an_older_one() -> None:
    store = Store()
    broker, clock = store.open(), store.clock
    send_at(broker, {"old": clock.wall_ms() + 60_000})

    clock.set_wall(clock.wall_ms() + HOUR_MS)
    send_at(broker, {"new": clock.wall_ms() + 10})
    clock.advance(10)
    deliver(broker)

    assert bodies(broker) == ["new"]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_jump_is_known_over_a_restart(waiting: Waiting, is_clean: bool) -> None:
    waiting.jump(HOUR_MS)
    sync(waiting.broker)
    if is_clean:
        waiting.broker.close()
    waiting.broker = waiting.store.open()

    assert waiting.is_there_after(59_999) == []
    assert waiting.is_there_after(1) == ["a"]


def test_what_was_delivered_while_others_are_held_back_is_not_delivered_again() -> None:
    store = Store(tuning=TINY)
    broker, clock = store.open(), store.clock
    send_at(broker, {f"old{number}": clock.wall_ms() + 1_000 * number for number in range(9)})
    clock.set_wall(clock.wall_ms() + HOUR_MS)
    deliver(broker)
    for number in range(9):
        send_at(broker, {f"new{number}": clock.wall_ms() + 500})
        clock.advance(1_000)
        deliver(broker)
        moved = move(broker)
        sync(broker)
        broker = store.open()
        deliver(broker)

    assert sorted(bodies(broker)) == sorted(
        [*(f"old{number}" for number in range(9)), *(f"new{number}" for number in range(9))]
    )
    assert (len(broker.delays.waiting), moved) == (0, False)


def test_jumps_are_forgotten_when_nothing_waits_that_is_older(waiting: Waiting) -> None:
    waiting.jump(HOUR_MS)
    waiting.broker.checkpoint()
    before = waiting.broker.delaylist.status().clock_held_ms
    waiting.is_there_after(60_000)
    waiting.broker.checkpoint()

    assert (before, waiting.broker.delaylist.status().clock_held_ms) == (HOUR_MS, 0)


def test_records_of_levels_are_held_back_by_their_place_in_the_log(waiting: Waiting) -> None:
    end = waiting.broker.log.written_offset
    waiting.jump(HOUR_MS)

    held_ms = waiting.broker.state.timers.held_ms(np.array([0, end - 1, end]))

    assert held_ms.tolist() == [HOUR_MS, HOUR_MS, 0]


def test_more_jumps_than_are_told_apart_hold_nothing_back_for_less() -> None:
    store = Store()
    broker, clock = store.open(), store.clock
    send_at(broker, {"a": clock.wall_ms() + 60_000})
    for number in range(200):
        clock.set_wall(clock.wall_ms() + (5_000 if number % 2 else -3_000))
        deliver(broker)

    assert len(broker.state.timers.jumps) == 64
    assert deliver(broker) == 0
    clock.advance(59_999)
    assert deliver(broker) == 0
    # Merging errs on the side of waiting: never by more than what the jumps ahead add up to.
    clock.advance(100 * 5_000 + 1)
    assert deliver(broker) == 1
