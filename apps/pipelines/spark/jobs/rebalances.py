"""Rebalances: storms of them, and queues that nobody had. Docs: docs/JOBS.md."""

from typing import TYPE_CHECKING

from pyspark.sql import Window as Over
from pyspark.sql import functions as sql

from apps.pipelines.spark.jobs import Inputs, Outputs, Window
from apps.pipelines.spark.relations import within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STORM_A_MINUTE = 6
STORM_AN_HOUR = 30
"""As many rebalances of a group in a minute, or in an hour, are a storm."""

_KEY = ("group", "hour")


def run(inputs: Inputs, window: Window) -> Outputs:
    """Return a row for each group and hour in which it was rebalanced, or had locks to lose."""
    shared_out = _shared_out(inputs["input.rebalances"], window)
    found = shared_out.join(_without_owner(inputs["input.locks"], window), list(_KEY), "full")
    count = {
        name: sql.coalesce(sql.col(name), sql.lit(0).cast("bigint"))
        for name in ("rebalances", "queues_moved", "most_a_minute")
    }
    is_storm = (count["most_a_minute"] >= STORM_A_MINUTE) | (count["rebalances"] >= STORM_AN_HOUR)
    rows = found.select(
        *_KEY,
        *(column.alias(name) for name, column in count.items()),
        is_storm.alias("is_storm"),
        "without_owner_s",
        sql.coalesce("top_reason", sql.lit("")).alias("top_reason"),
    )
    return {"gold.rebalances": rows}


def _shared_out(rebalances: "DataFrame", window: Window) -> "DataFrame":
    here = rebalances.where(within("at", window)).select(
        "group", "reason", "queues_moved", "at", sql.date_trunc("hour", "at").alias("hour")
    )
    minutes = here.groupBy(*_KEY, sql.date_trunc("minute", "at")).agg(
        sql.count("*").alias("times"), sql.sum("queues_moved").alias("moved")
    )
    counts = minutes.groupBy(*_KEY).agg(
        sql.sum("times").alias("rebalances"),
        sql.sum("moved").cast("bigint").alias("queues_moved"),
        sql.max("times").alias("most_a_minute"),
    )
    reasons = here.groupBy(*_KEY, "reason").agg((-sql.count("*")).alias("fewer"))
    # Of equally frequent ones the first by name, so that a run that is repeated says the same.
    top = reasons.groupBy(*_KEY).agg(sql.min_by("reason", sql.struct("fewer", "reason")))
    return counts.join(top.toDF(*_KEY, "top_reason"), list(_KEY))


def _without_owner(locks: "DataFrame", window: Window) -> "DataFrame":
    """Return for how long queues were free, hour by hour, of groups that have locks.

    A lock that was taken over says nothing of when its owner was gone before.
    """
    of_queue = Over.partitionBy("group", "topic", "queue").orderBy("at", "epoch")
    start, end = sql.lit(window.start), sql.lit(window.end)
    spans = locks.where(sql.col("at") < end).select(
        "group",
        (sql.col("client") == "").alias("is_free"),
        sql.greatest("at", start).alias("from_at"),
        sql.coalesce(sql.lead("at").over(of_queue), end).alias("to_at"),
    )
    hours = spans.where(sql.col("to_at") > start).select(
        "group",
        "is_free",
        "from_at",
        "to_at",
        sql.explode(
            sql.sequence(
                sql.date_trunc("hour", "from_at"),
                sql.date_trunc("hour", "to_at"),
                sql.expr("interval 1 hour"),
            )
        ).alias("hour"),
    )
    hour_end = sql.col("hour") + sql.expr("interval 1 hour")
    free_us = sql.unix_micros(sql.least("to_at", hour_end)) - sql.unix_micros(
        sql.greatest("from_at", "hour")
    )
    inside = hours.where((sql.col("hour") < sql.col("to_at")) & (sql.col("hour") < end))
    free_s = sql.when(sql.col("is_free"), free_us / 1e6).otherwise(0.0)
    return inside.groupBy(*_KEY).agg(sql.sum(free_s).alias("without_owner_s"))
