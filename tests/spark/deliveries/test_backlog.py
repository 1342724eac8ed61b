"""Backlogs with a cause put in: each group of the golden data is behind for another reason."""

from datetime import timedelta
from typing import Any

import pytest

from apps.pipelines.spark.jobs import Window
from tests.spark.deliveries.golden import HOUR, START, at, frame, outcome, run, trace

pytestmark = pytest.mark.spark

# An hour before the window, a sample a minute.
_MINUTES = range(-60, 2)


def _samples(group: str, **series: Any) -> list[dict[str, object]]:
    """Return samples; each value is a number, or what makes one of the minute."""
    return [
        {"group": group, "topic": "orders", "at": at(60 * minute), "members": 2}
        | {name: value(minute) if callable(value) else value for name, value in series.items()}
        for minute in _MINUTES
    ]


def _grows(minute: int) -> int:
    """A lag that grows by 60 a second from 20 minutes before the window on."""
    return max(0, 60 * 60 * (minute + 20))


def _later(before: float, after: float) -> Any:
    """A rate that changes 15 minutes before the window's second sample."""
    return lambda minute: after if minute > -14 else before


def test_each_backlog_has_its_cause_and_its_end(spark: Any) -> None:
    plain = {"send_rate": 100.0, "consume_rate": 100.0, "committed": lambda m: 10**6 + 6_000 * m}
    progress = [
        *_samples("idle", lag=0, **plain),
        *_samples("small", lag=5_999, **plain),
        *_samples("unknown", **plain),
        *_samples("alone", lag=_grows, **(plain | {"members": 0})),
        *_samples("stuck", lag=_grows, **(plain | {"committed": 5})),
        *_samples("failing", lag=_grows, **plain),
        *_samples("burst", lag=_grows, **(plain | {"send_rate": _later(100.0, 160.0)})),
        *_samples("slow", lag=_grows, **(plain | {"consume_rate": _later(100.0, 40.0)})),
        *_samples("longer", lag=_grows, **plain),
        *_samples("drains", lag=lambda m: 60_000 - 600 * m, **plain),
    ]
    traces = [
        *(trace(n, -n, group="failing", result="error" if n % 4 == 0 else "ok") for n in range(40)),
        *(trace(n, -60 * n, group="longer") for n in range(20, 50)),
        *(trace(n, -60 * n, group="longer", ended_at=at(-60 * n + 0.2)) for n in range(13)),
    ]
    inputs = {
        "input.progress": frame(spark, "input.progress", progress),
        "bronze.trace": frame(spark, "bronze.trace", traces),
    }

    window = Window(start=HOUR.start, end=START + timedelta(minutes=5))
    found = run("backlog", inputs, window)["gold.backlog"]

    rows = {(row.group, row.at.minute): row for row in found.collect()}
    assert len(rows) == 20
    assert {group: row.cause for (group, minute), row in rows.items() if minute == 1} == {
        "idle": "none",
        "small": "none",
        "unknown": "unknown",
        "alone": "no_consumer",
        "stuck": "stuck",
        "failing": "failing",
        "burst": "burst",
        "slow": "slow",
        "longer": "slow",
        "drains": "unknown",
    }
    burst, drains = rows["burst", 1], rows["drains", 1]
    assert (burst.lag, burst.send_rate, burst.consume_rate) == (75_600, 160.0, 100.0)
    assert burst.trend_per_s == pytest.approx(60)
    assert drains.trend_per_s == pytest.approx(-10)
    assert drains.drain_s == pytest.approx(5_940)
    assert [rows[group, 1].drain_s for group in ("idle", "burst", "unknown")] == [0, None, None]


def test_nothing_comes_of_nothing(spark: Any) -> None:
    inputs = {name: frame(spark, name, []) for name in ("input.progress", "bronze.trace")}

    assert outcome(run("backlog", inputs)["gold.backlog"], "group") == []
