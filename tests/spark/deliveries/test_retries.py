"""Attempts, ends and causes, of failures that were put in."""

from typing import Any

import pytest

from tests.spark.deliveries.golden import at, frame, outcome, run, trace

pytestmark = pytest.mark.spark


def _letter(number: int, dead_s: float, **values: object) -> dict[str, object]:
    return {
        "group": "g", "topic": "orders", "message_id": f"m{number}", "attempts": 3,
        "reason": "LookupError('x')", "first_failed_at": at(dead_s - 60), "dead_at": at(dead_s),
        "state": "waiting",
    } | values  # fmt: skip


def test_messages_end_done_dead_or_open_and_failures_have_causes(spark: Any) -> None:
    def fails(offset: int, *seconds: float, error: str = "LookupError") -> list[dict[str, object]]:
        return [
            trace(offset, began_s, attempt=number, result="error", error_class=error)
            for number, began_s in enumerate(seconds, 1)
        ]

    traces = [
        *(trace(n, 10) for n in range(20)),
        # Done at the third attempt, of which the first lies before the window.
        *fails(100, -30, 5, error="TimeoutError"),
        trace(100, 20, attempt=3),
        # Poison: three failures, and dead.
        *fails(101, 100, 110, 120),
        # Still open; asked for another try, without an exception.
        trace(102, 200, result="later"),
        # Was dead, was sent again and is done.
        *fails(103, 300),
        trace(103, 400, attempt=2),
        # Over before the window.
        trace(104, -500),
        # After it.
        trace(105, 3_600),
    ]
    letters = [
        _letter(101, 121),
        _letter(103, 350),
        # Nobody traced these.
        _letter(200, 500, attempts=17, reason="ValueError('a long story')"),
        _letter(201, 501, attempts=17, reason="no stock", first_failed_at=None),
        _letter(202, -40),
    ]
    inputs = {
        "bronze.trace": frame(spark, "bronze.trace", traces),
        "input.letters": frame(spark, "input.letters", letters),
    }

    found = run("retries", inputs)

    retries = outcome(found["gold.retries"], "attempts", "final", "messages", "p50_s", "p99_s")
    assert [row[:3] for row in retries] == [
        (1, "done", 20),
        (1, "open", 1),
        (2, "done", 1),
        (3, "dead", 1),
        (3, "done", 1),
        (17, "dead", 2),
    ]
    assert [row[3] for row in retries] == pytest.approx([0.1, 0.1, 100.1, 21.0, 50.1, 60.0])
    assert outcome(
        found["gold.dead_causes"], "error_class", "failures", "messages", "dead", "is_poison"
    ) == [
        ("LookupError", 4, 2, 1, False),
        ("TimeoutError", 1, 1, 0, False),
        ("ValueError", 17, 1, 1, True),
        ("later", 1, 1, 0, False),
        ("no stock", 17, 1, 1, True),
    ]


def test_poison_is_what_fails_again_and_again_while_others_pass(spark: Any) -> None:
    def fails(group: str, offset: int) -> list[dict[str, object]]:
        return [
            trace(offset, 10 * n, group=group, attempt=n, result="error", error_class="KeyError")
            for n in range(1, 5)
        ]

    traces = [
        *(trace(n, 10, group="one") for n in range(2)),
        *fails("one", 50),
        # All of this group's messages fail: it is the group that is ill.
        *fails("all", 50),
        *fails("all", 51),
    ]
    inputs = {
        "bronze.trace": frame(spark, "bronze.trace", traces),
        "input.letters": frame(spark, "input.letters", []),
    }

    found = run("retries", inputs)["gold.dead_causes"]

    assert outcome(found, "group", "failures", "messages", "is_poison") == [
        ("all", 8, 2, False),
        ("one", 4, 1, True),
    ]
