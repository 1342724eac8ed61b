"""Shares, hot keys, rates and rules are measured to the number."""

from typing import Any

import pytest

from apps.pipelines.spark.jobs import function_of
from tests.spark.jobs import golden
from tests.spark.jobs.golden import WINDOW, at

pytestmark = pytest.mark.spark


def test_uneven_queues_and_hot_keys_are_measured(spark: Any) -> None:
    """An idle queue counts, a hot key stays hot under any hash, and other keys spread."""
    found = function_of("skew")(golden.uneven().inputs(spark), WINDOW)

    shares = {(row["topic"], row["queue"]): row for row in found["gold.queue_shares"].collect()}
    hot = [shares["hot", queue] for queue in range(4)]
    assert [row["messages"] for row in hot] == [70, 20, 10, 0]
    assert [row["bytes"] for row in hot] == [14_000, 4_000, 2_000, 0]
    assert [row["share"] for row in hot] == [0.7, 0.2, 0.1, 0]
    assert {(row["gini"], row["max_to_mean"]) for row in hot} == {(0.55, 2.8)}
    assert max(row["share_if_rehashed"] for row in hot) >= 0.6
    assert sum(row["share_if_rehashed"] for row in hot) == pytest.approx(1)
    even = [shares["even", queue] for queue in range(4)]
    assert (even[0]["share"], even[0]["gini"], even[0]["max_to_mean"]) == (1, 0.75, 4)
    assert all(0.2 < row["share_if_rehashed"] < 0.3 for row in even)

    keys = found["gold.hot_keys"].where("topic = 'hot'").collect()
    told = {(row["key_kind"], row["rank"]): row for row in keys}
    assert sorted(told) == [*(("key", rank) for rank in range(1, 21)), ("sharding_key", 1)]
    big = told["sharding_key", 1]
    assert (big["key"], big["messages"], big["bytes"]) == ("big", 60, 12_000)
    assert (big["share"], big["queues"]) == (0.6, 1)
    ranked = [told["key", rank]["key"] for rank in (1, 2, 3, 20)]
    assert ranked == ["blue", "red", "k0-00", "k1-07"]


def test_each_broken_rule_is_told(spark: Any) -> None:
    """With its value and its limit, beside those that were kept."""
    found = function_of("quality")(golden.broken().inputs(spark), WINDOW)["gold.quality"]

    rows = found.collect()
    broken = {
        (row["table_name"], row["rule"], row["topic"]): (row["severity"], row["value"])
        for row in rows
        if not row["is_kept"]
    }
    assert broken == {
        ("bronze.messages", "unique_offset", "bad"): ("block", 1),
        ("bronze.messages", "possible_values", "bad"): ("block", 1),
        ("bronze.messages", "rising_store_time", "bad"): ("warn", 1),
        ("bronze.messages", "whole_offsets", "bad"): ("warn", 3),
        ("bronze.messages", "due_after_born", "bad"): ("warn", 1),
        ("bronze.messages", "key_share", "bad"): ("warn", 0.375),
        ("bronze.messages", "freshness", "quiet"): ("warn", 4_200),
        ("bronze.messages", "freshness", "young"): ("warn", 11_400),
        ("bronze.messages", "volume", "quiet"): ("warn", 7),
        ("bronze.trace", "possible_values", "bad"): ("block", 2),
        ("bronze.trace", "ended_after_started", "bad"): ("warn", 1),
        ("bronze.trace", "known_message", "bad"): ("warn", 1),
    }
    limits = {(row["rule"], row["topic"]): row["limit"] for row in rows}
    assert limits["key_share", "bad"] == pytest.approx(0.1)
    assert limits["freshness", "quiet"] == 3_600
    assert limits["freshness", "young"] == 3_600, "it has had three hours, not a day"
    assert limits["freshness", "rare"] == 2 * 86_400 / 9
    assert limits["volume", "bad"] is None


def test_rates_count_by_minute(spark: Any) -> None:
    found = function_of("rates")(golden.broken().inputs(spark), WINDOW)["gold.rates"]

    rows = [row for row in found.collect() if row["topic"] == "bad"]
    sent = {row["minute"].timestamp(): row for row in rows if row["group"] == ""}
    assert [sent[at(minute).timestamp()]["messages"] for minute in (1, 2, 3, 4, 5)] == [
        1, 1, 2, 1, 1,
    ]  # fmt: skip
    third = sent[at(3).timestamp()]
    assert (third["bytes"], third["failures"], third["mean_ms"]) == (400, 0, None)
    worked = {row["minute"].timestamp(): row for row in rows if row["group"] == "g"}
    assert worked[at(2).timestamp()]["messages"] == 3
    assert worked[at(2).timestamp()]["mean_ms"] == pytest.approx(1_000 / 3)
    last = worked[at(3).timestamp()]
    assert (last["messages"], last["failures"], last["mean_ms"]) == (1, 1, 1_000)
