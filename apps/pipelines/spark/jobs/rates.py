"""Messages a minute, sent and worked on. Docs: docs/JOBS.md."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from apps.pipelines.spark.jobs import Inputs, Outputs, Window
from apps.pipelines.spark.relations import deliveries, within

if TYPE_CHECKING:
    from pyspark.sql import Column


def run(inputs: Inputs, window: Window) -> Outputs:
    """Return counts by topic and minute of storing, and by group, topic and minute of ending."""
    none = sql.lit(0).cast("bigint")
    sent = (
        inputs["bronze.messages"]
        .where(within("stored_at", window))
        .groupBy("topic", sql.lit("").alias("group"), _minute("stored_at"))
        .agg(
            sql.count("*").alias("messages"),
            none.alias("failures"),
            sql.sum("store_bytes").cast("bigint").alias("bytes"),
            sql.lit(None).cast("double").alias("mean_ms"),
        )
    )
    worked_ms = (sql.unix_micros("ended_at") - sql.unix_micros("started_at")) / 1000
    is_ok = sql.col("result") == "ok"
    worked_on = (
        deliveries(inputs["bronze.trace"])
        .where(within("ended_at", window))
        .groupBy("topic", "group", _minute("ended_at"))
        .agg(
            sql.count(sql.when(is_ok, 1)).alias("messages"),
            sql.count(sql.when(~is_ok, 1)).alias("failures"),
            none.alias("bytes"),
            sql.avg(worked_ms).alias("mean_ms"),
        )
    )
    return {"gold.rates": sent.unionByName(worked_on)}


def _minute(at: str) -> "Column":
    return sql.date_trunc("minute", at).alias("minute")
