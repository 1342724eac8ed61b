"""How fast a mirror may be, and how long it tries."""

import pytest
from mqclient import ConnectionLost, MessageIllegal
from mqclient.mirroring.pace import Pace, Stopped


class StillClock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def steady_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)


def test_a_rate_spreads_messages_over_time_and_saves_nothing_up() -> None:
    clock = StillClock()
    pace = Pace(clock=clock, rate=100.0, patience_s=1.0)

    first, second = pace.delay_s(50), pace.delay_s(50)
    clock.now_s += 60.0
    after_a_pause = pace.delay_s(50)

    assert [first, second, after_a_pause] == pytest.approx([0.0, 0.5, 0.0])


def test_without_a_rate_nothing_waits() -> None:
    pace = Pace(clock=StillClock(), rate=None, patience_s=1.0)

    assert [pace.delay_s(10_000), pace.delay_s(10_000)] == [0.0, 0.0]


def failing(clock: StillClock, errors: list[Exception]) -> object:
    def action() -> str:
        clock.now_s += 1.0
        if errors:
            raise errors.pop(0)
        return "done"

    return action


def test_what_a_repeat_may_mend_is_repeated_and_counted_where_it_may_be_there_twice() -> None:
    clock, renewed = StillClock(), []
    pace = Pace(clock=clock, rate=None, patience_s=60.0)
    errors: list[Exception] = [ConnectionLost("gone"), ConnectionLost("gone")]

    found = pace.persist(failing(clock, errors), after=lambda: renewed.append(clock.now_s))  # type: ignore[arg-type,return-value]

    assert found == "done"
    assert pace.repeats == 2
    assert len(renewed) == 2


def test_patience_ends_with_the_last_error() -> None:
    clock = StillClock()
    pace = Pace(clock=clock, rate=None, patience_s=2.0)
    errors: list[Exception] = [ConnectionLost(f"{number}") for number in range(9)]

    with pytest.raises(ConnectionLost):
        pace.persist(failing(clock, errors), after=lambda: None)  # type: ignore[arg-type]

    assert 0 < len(errors) < 9


def test_what_no_repeat_mends_is_not_repeated() -> None:
    clock = StillClock()
    pace = Pace(clock=clock, rate=None, patience_s=60.0)
    errors: list[Exception] = [MessageIllegal("no"), MessageIllegal("never asked")]

    with pytest.raises(MessageIllegal, match="no"):
        pace.persist(failing(clock, errors), after=lambda: None)  # type: ignore[arg-type]

    assert len(errors) == 1


def test_a_mirror_that_is_stopped_does_not_wait() -> None:
    clock = StillClock()
    pace = Pace(clock=clock, rate=1.0, patience_s=60.0)
    pace.stop.set()
    pace.keep(1)

    with pytest.raises(Stopped):
        pace.keep(1)
    with pytest.raises(Stopped):
        pace.persist(failing(clock, [ConnectionLost("gone")]), after=lambda: None)  # type: ignore[arg-type]
