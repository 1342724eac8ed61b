"""The words for a backlog."""

import pytest

from apps.console.levels import Level, Trend, level_of, trend_of


@pytest.mark.parametrize(
    ("lag", "level"),
    [
        (None, Level.UNKNOWN),
        (0, Level.NONE),
        (1, Level.LOW),
        (999, Level.LOW),
        (1_000, Level.WARN),
        (9_999, Level.WARN),
        (10_000, Level.HIGH),
    ],
)
def test_a_lag_has_a_level_and_unknown_is_not_zero(lag: int | None, level: Level) -> None:
    assert level_of(lag) is level


@pytest.mark.parametrize(
    ("send_rate", "consume_rate", "trend"),
    [
        (100.0, 50.0, Trend.RISING),
        (50.0, 100.0, Trend.FALLING),
        (100.0, 99.0, Trend.STEADY),
        (0.0, 0.4, Trend.STEADY),
        (None, 5.0, None),
        (5.0, None, None),
    ],
)
def test_a_backlog_goes_where_its_two_rates_take_it(
    send_rate: float | None, consume_rate: float | None, trend: Trend | None
) -> None:
    assert trend_of(lag=10, send_rate=send_rate, consume_rate=consume_rate) is trend


def test_a_group_that_has_caught_up_is_steady() -> None:
    assert trend_of(lag=0, send_rate=1.0, consume_rate=500.0) is Trend.STEADY
