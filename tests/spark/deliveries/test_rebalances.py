"""Storms and queues without an owner, of histories that were put in."""

from datetime import UTC, timedelta
from typing import Any

import pytest

from apps.pipelines.spark.jobs import Window
from tests.spark.deliveries.golden import START, at, frame, outcome, run

pytestmark = pytest.mark.spark

_TWO_HOURS = Window(start=START, end=START + timedelta(hours=2))


def _shared(group: str, second: float, reason: str = "join", moved: int = 2) -> dict[str, object]:
    return {"group": group, "at": at(second), "reason": reason, "queues_moved": moved}


def _lock(queue: int, second: float, client: str, epoch: int) -> dict[str, object]:
    return {
        "group": "locks", "topic": "orders", "queue": queue, "at": at(second), "client": client,
        "epoch": epoch, "change": "acquired" if client else "released",
    }  # fmt: skip


def test_rebalances_are_counted_by_hour_and_owners_missed(spark: Any) -> None:
    shared = [
        *(_shared("storm", 60 + n, "leave") for n in range(5)),
        _shared("storm", 90, "join"),
        _shared("calm", 60),
        _shared("calm", 3_700, "leave", moved=7),
        _shared("calm", -5),
        _shared("calm", 7_200),
    ]
    locks = [
        # Free since before the window for 30 s of it, then held.
        _lock(0, -100, "", 1),
        _lock(0, 30, "a", 2),
        # Free over the hour: 100 s in the first, 50 s in the second.
        _lock(1, -200, "a", 1),
        _lock(1, 3_500, "", 1),
        _lock(1, 3_650, "b", 2),
        # Free at the end, of which 10 s are the window's.
        _lock(2, 0, "a", 1),
        _lock(2, 7_190, "", 1),
        _lock(2, 7_300, "a", 2),
    ]
    inputs = {
        "input.rebalances": frame(spark, "input.rebalances", shared),
        "input.locks": frame(spark, "input.locks", locks),
    }

    found = run("rebalances", inputs, _TWO_HOURS)["gold.rebalances"]

    rows = outcome(
        found,
        "group", "hour", "rebalances", "queues_moved", "most_a_minute", "is_storm",
        "without_owner_s", "top_reason",
    )  # fmt: skip
    assert [(row[0], row[1].astimezone(UTC).hour, *row[2:]) for row in rows] == [
        ("calm", 10, 1, 2, 1, False, None, "join"),
        ("calm", 11, 1, 7, 1, False, None, "leave"),
        ("locks", 10, 0, 0, 0, False, 130.0, ""),
        ("locks", 11, 0, 0, 0, False, 60.0, ""),
        ("storm", 10, 6, 12, 6, True, None, "leave"),
    ]
