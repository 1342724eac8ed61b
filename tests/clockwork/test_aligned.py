"""Ticks come at multiples of their interval, once after any pause, whatever the clock does."""

from datetime import UTC, datetime

import pytest

from apps.clockwork.aligned import AFTER_SLOT_S, AlignedSchedule


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(1_000_000 * 5 + seconds, UTC)


class AtMoment(AlignedSchedule):
    """The schedule at a moment that the test chooses."""

    moment = moment(0)

    def now(self) -> datetime:
        return self.moment


def at(seconds: float) -> AtMoment:
    schedule = AtMoment(5)
    schedule.moment = moment(seconds)
    return schedule


def test_a_tick_is_sent_a_little_after_each_slot_begins() -> None:
    assert not at(5 + AFTER_SLOT_S - 0.01).is_due(moment(1)).is_due
    assert at(5 + AFTER_SLOT_S + 0.01).is_due(moment(1)).is_due


def test_the_next_look_is_when_the_next_slot_begins() -> None:
    assert at(6).is_due(moment(5.5)).next == pytest.approx(4 + AFTER_SLOT_S, abs=1e-3)


def test_after_ten_minutes_without_beat_one_tick_is_sent() -> None:
    assert at(600.5).is_due(moment(0.5)).is_due
    assert not at(600.6).is_due(moment(600.5)).is_due


@pytest.mark.parametrize("jump_s", [3600, -3600, 86_400 * 365])
def test_a_clock_that_jumps_costs_one_tick_and_goes_on(jump_s: int) -> None:
    landed = at(0.5 + jump_s).is_due(moment(0.5))
    assert landed.is_due
    assert 0 < landed.next <= 5
    assert not at(0.6 + jump_s).is_due(moment(0.5 + jump_s)).is_due


def test_the_schedule_survives_pickling_as_beat_does_it() -> None:
    kind, arguments = AlignedSchedule(7).__reduce__()
    assert kind(*arguments).every_s == 7
