"""What was put into the golden data is found, to the number, and nothing else is."""

from collections.abc import Mapping
from functools import reduce
from itertools import pairwise
from typing import Any

import pytest

from apps.pipelines.spark.jobs import Window, function_of
from tests.spark.jobs import golden
from tests.spark.jobs.golden import WINDOW, at

pytestmark = pytest.mark.spark

GAPS = [
    ("fresh", 0, 1, 1),
    ("orders", 0, 130, 130),
    ("orders", 0, 140, 143),
    ("orders", 1, 119, 119),
    ("orders", 1, 150, 150),
    ("orders", 1, 239, 239),
    ("orders", 2, 200, 209),
    ("orders", 3, 1, 1),
]


@pytest.fixture(scope="module")
def inputs(spark: Any) -> Mapping[str, Any]:
    return {name: frame.cache() for name, frame in golden.faulty().inputs(spark).items()}


def told(frame: Any, *names: str) -> list[tuple[Any, ...]]:
    """Return rows as tuples, in order."""
    return sorted(map(tuple, frame.select(*names).collect()), key=str)


def windows(*edges: float) -> list[Window]:
    """Return the golden window, cut at minutes."""
    return [Window(start=at(start), end=at(end)) for start, end in pairwise((0, *edges, 60))]


def test_twenty_lost_numbers_are_found_in_eight_gaps(inputs: Mapping[str, Any]) -> None:
    """One behind the edge of the window, two at beginnings; late ones are not lost."""
    found = function_of("loss")(inputs, WINDOW)["gold.loss"]

    rows = found.collect()
    assert (
        sorted((row["topic"], row["queue"], row["first_seq"], row["last_seq"]) for row in rows)
        == GAPS
    )
    assert sum(row["missing"] for row in rows) == 20
    edge = next(row for row in rows if row["first_seq"] == 119)
    # The queue held 118 messages before that with number 120.
    assert (edge["next_offset"], edge["found_at"].timestamp()) == (1_118, at(0).timestamp())
    starter = next(row for row in rows if row["queue"] == 3)
    assert (starter["producer"], starter["epoch"]) == ("starter", golden.epoch(10))


def test_windows_cut_anyhow_find_the_gaps_of_one(inputs: Mapping[str, Any]) -> None:
    """But for a number that is late beyond the cut: that is told missing, and then recovered."""
    loss = function_of("loss")
    cuts = [(), (20,), (7, 35), (21,)]
    parts = [
        loss(inputs, window)["gold.loss"].selectExpr(
            f"{number} cut", "topic", "queue", "first_seq", "last_seq"
        )
        for number, edges in enumerate(cuts)
        for window in windows(*edges)
    ]

    rows = list(map(tuple, reduce(lambda one, other: one.unionByName(other), parts).collect()))

    found = [sorted(row[1:] for row in rows if row[0] == number) for number in range(len(cuts))]
    assert found[0] == found[1] == found[2] == GAPS
    assert set(found[3]) - set(GAPS) == {("orders", 3, 160, 160)}
    assert len(found[3]) == len(GAPS) + 1
    later = loss(inputs, windows(21)[1])["gold.loss_totals"]
    assert told(later.where("recovered > 0"), "topic", "queue", "recovered") == [("orders", 3, 2)]


def test_the_matrix_counts_losses_and_repeats_by_queue(inputs: Mapping[str, Any]) -> None:
    """Of producers' messages: neither retries nor what a person had sent again is counted."""
    found = function_of("loss")(inputs, WINDOW)["gold.loss_totals"]

    assert sorted(map(tuple, found.where("topic <> 'moves'").collect())) == [
        # messages, numbered, producers, gaps, missing, recovered, stored and consumed twice
        ("fresh", 0, 2, 2, 1, 1, 1, 0, 0, 0),
        ("orders", 0, 124, 123, 3, 2, 5, 0, 5, 0),
        ("orders", 1, 122, 122, 1, 3, 3, 0, 3, 0),
        ("orders", 2, 146, 113, 1, 1, 10, 0, 4, 0),
        ("orders", 3, 125, 125, 2, 1, 1, 1, 2, 0),
        ("payments", 0, 0, 0, 0, 0, 0, 0, 0, 9),
        # A compacted topic: its numbers are not looked at.
        ("state", 0, 3, 0, 0, 0, 0, 0, 0, 0),
    ]


def test_copies_are_counted_once_each_by_their_cause(inputs: Mapping[str, Any]) -> None:
    """Fourteen that were stored again and nine deliveries too many."""
    found = function_of("duplicates")(inputs, WINDOW)

    rows = found["gold.duplicates"].collect()
    by_cause: dict[tuple[Any, ...], tuple[int, int]] = {}
    for row in rows:
        cause = (row["topic"], row["group"], row["kind"], row["cause"])
        messages, extra = by_cause.get(cause, (0, 0))
        by_cause[cause] = messages + 1, extra + row["extra"]
    assert by_cause == {
        ("orders", "", "stored", "resend"): (12, 13),
        ("orders", "", "stored", "retry"): (1, 1),
        ("payments", "ledger", "consumed", "rebalance"): (3, 4),
        ("payments", "ledger", "consumed", "resend"): (1, 1),
        ("payments", "ledger", "consumed", "retry"): (1, 1),
        ("payments", "ledger", "consumed", "timeout"): (2, 2),
        ("payments", "ledger", "consumed", "unknown"): (1, 1),
    }
    totals = found["gold.duplicate_totals"].collect()
    assert {tuple(row)[:4]: tuple(row)[4:] for row in totals} == by_cause
    others = {row["message_id"]: row["known_by"] for row in rows if row["known_by"] != "id"}
    assert others == {"shop 160": "number", "sink 9": "number", "0 24": "place"}
    thrice = next(row for row in rows if row["message_id"] == "shop-orders-3-170")
    assert (thrice["copies"], thrice["extra"]) == (3, 2)
    assert thrice["first_at"].timestamp() == at(25).timestamp()
    assert thrice["last_at"].timestamp() == at(41).timestamp()


def test_disorder_is_told_of_keys_and_of_ordered_groups(inputs: Mapping[str, Any]) -> None:
    """Not of groups that promised no order, nor of what came again after a failure."""
    found = function_of("ordering")(inputs, WINDOW)["gold.disorder"]

    names = ("group", "kind", "sharding_key", "queue", "other_queue", "queue_offset")
    more = ("other_offset", "client", "other_client", "pattern", "times", "in_all")
    assert told(found, *names, *more) == [
        ("", "two_queues", "edge", 1, 2, 1001, 1000, "", None, "moved", 1, 4),
        ("", "two_queues", "mixed", 0, 1, 1007, 1002, "", None, "mixed", 1, 4),
        ("", "two_queues", "mixed", 1, 0, 1002, 1003, "", None, "mixed", 2, 4),
        ("", "two_queues", "moved", 1, 0, 1003, 1005, "", None, "moved", 1, 4),
        ("ship", "backwards", "", 0, None, 102, 103, "c1", "c1", "", 2, 2),
        ("ship", "backwards", "e", 0, None, 111, 112, "c1", "c1", "", 1, 2),
        ("ship", "overlap", "", 2, None, 201, 200, "c2", "c1", "", 1, 1),
        ("silent", "overlap", "h", 3, None, 301, 300, "c2", "c1", "", 1, 1),
    ]


def test_clean_data_gives_nothing(spark: Any) -> None:
    inputs = golden.clean().inputs(spark)
    faults = {
        "gold.loss": "true",
        "gold.loss_totals": "gaps + missing + recovered + stored_twice + consumed_twice > 0",
        "gold.duplicates": "true",
        "gold.disorder": "true",
        "gold.quality": "not is_kept",
    }
    found = [
        frame.where(faults[name]).selectExpr(f"'{name}' AS name")
        for job in ("loss", "duplicates", "ordering", "quality")
        for name, frame in function_of(job)(inputs, WINDOW).items()
        if name in faults
    ]

    assert reduce(lambda one, other: one.union(other), found).collect() == []
