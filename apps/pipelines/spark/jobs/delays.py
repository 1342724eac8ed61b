"""Delays: how punctual delayed messages were. Docs: docs/JOBS.md."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from apps.engine.codec.layout import TRACE_RECALLED
from apps.pipelines.spark.jobs import Inputs, Outputs, Window
from apps.pipelines.spark.relations import within
from apps.pipelines.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column

EDGES_MS = (
    -86_400_000.0, 0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0,
    5_000.0, 10_000.0, 30_000.0, 60_000.0, 300_000.0, 3_600_000.0,
)  # fmt: skip
"""Lower edges of the bars. The first is of what came early, by whatever; the last has no upper."""
# Of so many different values a percentile is exact.
_ACCURACY = 10_000


def run(inputs: Inputs, window: Window) -> Outputs:
    """Return what first deliveries in the window show, whichever group was the first to work.

    What was recalled in the window is counted beside them.
    """
    first = (
        inputs["bronze.trace"]
        .where((sql.col("attempt") == 1) & sql.col("due_at").isNotNull())
        .groupBy("topic", "queue", "queue_offset")
        .agg(
            sql.min("started_at").alias("at"),
            sql.first("due_at").alias("due_at"),
            sql.first("stored_at").alias("stored_at"),
            sql.first(sql.coalesce("delay_level", sql.lit(0))).alias("delay_level"),
        )
        .where(within("at", window))
        .withColumn("late_ms", _ms_after_due("at"))
    )
    late = sql.col("late_ms")
    delivered = first.groupBy("topic", "delay_level").agg(
        sql.count("*").alias("messages"),
        sql.count(sql.when(late < 0, 1)).alias("early"),
        sql.percentile_approx(late, 0.5, _ACCURACY).alias("p50_ms"),
        sql.percentile_approx(late, 0.99, _ACCURACY).alias("p99_ms"),
        sql.max(late).alias("max_ms"),
        sql.percentile_approx(
            sql.coalesce(_ms_after_due("stored_at"), late), 0.99, _ACCURACY
        ).alias("stored_p99_ms"),
    )
    recalled = (
        inputs["bronze.trace"]
        .where((sql.col("result") == TRACE_RECALLED) & within("ended_at", window))
        .groupBy("topic", sql.coalesce("delay_level", sql.lit(0)).alias("delay_level"))
        .agg(sql.count("*").alias("cancelled"))
    )
    none = ("messages", "early", "cancelled")
    delays = delivered.join(recalled, ["topic", "delay_level"], "full").fillna(0, none)
    edges = sql.array(*map(sql.lit, EDGES_MS))
    bounded = sql.greatest(late, sql.lit(EDGES_MS[0]))
    bars = first.groupBy(
        "topic",
        "delay_level",
        sql.array_max(sql.filter(edges, lambda edge: edge <= bounded)).alias("from_ms"),
        sql.array_min(sql.filter(edges, lambda edge: edge > bounded)).alias("to_ms"),
    ).agg(sql.count("*").alias("messages"))
    return {"gold.delays": delays.select(*TABLES["gold.delays"].names()), "gold.lateness": bars}


def _ms_after_due(name: str) -> "Column":
    return (sql.unix_micros(name) - sql.unix_micros("due_at")) / 1000
