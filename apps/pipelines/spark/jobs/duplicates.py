"""What was stored twice or worked on twice, and why. Docs: docs/JOBS.md."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from apps.pipelines.spark import copies
from apps.pipelines.spark.jobs import Inputs, Outputs, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF = ("topic", "group", "kind", "cause")


def run(inputs: Inputs, window: Window) -> Outputs:
    """Return the messages that came again in the window, and their counts by cause."""
    stored = copies.stored(inputs["bronze.messages"], window).withColumnRenamed("stored_at", "at")
    consumed = copies.consumed(inputs["bronze.trace"], window).withColumnRenamed("ended_at", "at")
    # Both outputs are made of it.
    found = (
        _told(stored.withColumn("group", sql.lit("")), "stored")
        .unionByName(_told(consumed, "consumed"))
        .persist()
    )
    totals = found.groupBy(*_OF).agg(
        sql.count_distinct("known_by", "message_id").alias("messages"),
        sql.sum("extra").cast("bigint").alias("extra"),
    )
    return {"gold.duplicates": found, "gold.duplicate_totals": totals}


def _told(extra: "DataFrame", kind: str) -> "DataFrame":
    return (
        extra.withColumn("kind", sql.lit(kind))
        .groupBy(*_OF, "known_by", "message_id")
        .agg(
            sql.max("copies").cast("int").alias("copies"),
            sql.count("*").cast("int").alias("extra"),
            sql.min("first_at").alias("first_at"),
            sql.max("at").alias("last_at"),
        )
    )
