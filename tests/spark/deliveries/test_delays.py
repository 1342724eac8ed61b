"""Punctuality of delayed messages, of lateness that was put in."""

from typing import Any

import pytest

from tests.spark.deliveries.golden import at, frame, outcome, recall, run, trace

pytestmark = pytest.mark.spark


def test_lateness_is_measured_by_level_at_the_first_delivery(spark: Any) -> None:
    level = [
        trace(n, 100 + n / 1000, due_at=at(100), stored_at=at(100.001), delay_level=3)
        for n in range(100)
    ]
    other = [
        trace(1_000, 100 - 0.25, due_at=at(100), stored_at=at(99.7)),
        trace(1_001, 100 + 7_200, due_at=at(100)),
        # The window's: another group was a little faster with the message.
        trace(1_002, 400, due_at=at(100), group="other"),
        trace(1_002, 401, due_at=at(100)),
        # None of these: a retry, no delay, and first seen before the window.
        trace(1_003, 500, due_at=at(100), attempt=2),
        trace(1_004, 500),
        trace(1_005, -3, due_at=at(-9)),
        trace(1_005, 200, due_at=at(-9)),
    ]
    # Nobody had these; the last was recalled before the window.
    recalled = [
        recall(2_000, 100),
        recall(2_001, 200),
        recall(2_002, 200, topic="never"),
        recall(2_003, -1),
    ]
    inputs = {"bronze.trace": frame(spark, "bronze.trace", level + other + recalled)}

    found = run("delays", inputs)

    assert outcome(
        found["gold.delays"],
        "topic", "delay_level", "messages", "early", "cancelled", "p50_ms", "p99_ms", "max_ms",
        "stored_p99_ms",
    ) == [
        ("never", 0, 0, 0, 1, None, None, None, None),
        ("orders", 0, 2, 1, 2, -250.0, 300_000.0, 300_000.0, 300_000.0),
        ("orders", 3, 100, 0, 0, 49.0, 98.0, 99.0, 1.0),
    ]  # fmt: skip
    bars = outcome(found["gold.lateness"], "delay_level", "from_ms", "to_ms", "messages")
    assert bars == [
        (0, -86_400_000.0, 0.0, 1),
        (0, 300_000.0, 3_600_000.0, 1),
        (3, 0.0, 1.0, 1),
        (3, 1.0, 2.0, 1),
        (3, 2.0, 5.0, 3),
        (3, 5.0, 10.0, 5),
        (3, 10.0, 20.0, 10),
        (3, 20.0, 50.0, 30),
        (3, 50.0, 100.0, 50),
    ]


def test_what_is_earlier_or_later_than_all_edges_has_a_bar(spark: Any) -> None:
    rows = [
        trace(1, 10, due_at=at(10 + 200_000)),
        trace(2, 10, due_at=at(10 - 200_000)),
    ]

    found = run("delays", {"bronze.trace": frame(spark, "bronze.trace", rows)})["gold.lateness"]

    assert {(row.from_ms, row.to_ms) for row in found.collect()} == {
        (-86_400_000.0, 0.0),
        (3_600_000.0, None),
    }
