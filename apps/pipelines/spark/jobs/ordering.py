"""Where the order of a key or of a queue did not hold. Docs: docs/JOBS.md."""

from typing import TYPE_CHECKING

from pyspark.sql import Window as Over
from pyspark.sql import functions as sql

from apps.pipelines.spark.jobs import Inputs, Outputs, Window
from apps.pipelines.spark.relations import of_producers, of_users, within

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROWS_MAX = 1_000
"""Rows of a topic, group and kind that are kept, the earliest."""

_PLACE = ("topic", "group", "sharding_key", "queue")


def run(inputs: Inputs, window: Window) -> Outputs:
    """Return keys in two queues, and deliveries that went backwards or overlapped."""
    deliveries = _deliveries(inputs["bronze.trace"], window)
    found = (
        _two_queues(of_producers(inputs["bronze.messages"], window), window)
        .unionByName(_backwards(deliveries, window))
        .unionByName(_overlaps(deliveries, window))
    )
    same = Over.partitionBy("topic", "group", "kind")
    earliest = same.orderBy("at", "sharding_key", "queue", "queue_offset")
    kept = (
        found.select(
            "*",
            sql.count("*").over(same).alias("in_all"),
            sql.row_number().over(earliest).alias("place"),
        )
        .where(sql.col("place") <= ROWS_MAX)
        .drop("place")
    )
    return {"gold.disorder": kept}


def _two_queues(messages: "DataFrame", window: Window) -> "DataFrame":
    """Find messages of a key that are in another queue than the key's message before."""
    key = Over.partitionBy("topic", "sharding_key")
    in_order = key.orderBy("log_offset")
    moves = (
        messages.where(sql.coalesce("sharding_key", sql.lit("")) != "")
        .select(
            "topic",
            "sharding_key",
            "queue",
            "queue_offset",
            sql.col("stored_at").alias("at"),
            sql.lag("queue").over(in_order).alias("other_queue"),
            sql.lag("queue_offset").over(in_order).alias("other_offset"),
        )
        .where(sql.col("queue") != sql.col("other_queue"))
    )
    # Of moves alone: a key that goes to each queue once moved, and has one move fewer than queues.
    moved = moves.groupBy("topic", "sharding_key").agg(
        sql.count("*").alias("moves"),
        sql.size(
            sql.array_distinct(sql.flatten(sql.collect_set(sql.array("queue", "other_queue"))))
        ).alias("queues"),
    )
    is_moved = sql.col("moves") == sql.col("queues") - 1
    told = moves.where(within("at", window)).join(moved, ["topic", "sharding_key"])
    return _first(
        told.select(
            "topic",
            sql.lit("").alias("group"),
            sql.lit("two_queues").alias("kind"),
            "sharding_key",
            "queue",
            "other_queue",
            "queue_offset",
            "other_offset",
            sql.lit("").alias("client"),
            sql.lit(None).cast("string").alias("other_client"),
            "at",
            sql.when(is_moved, "moved").otherwise("mixed").alias("pattern"),
        ),
        "other_queue",
    )


def _deliveries(trace: "DataFrame", window: Window) -> "DataFrame":
    """Return deliveries by what they must keep in order: their key, and an ordered group's queue.

    A group that says it promised no order is left out, and so is what comes again after a failure.
    """
    mode = sql.coalesce("mode", sql.lit(""))
    key = sql.coalesce("sharding_key", sql.lit(""))
    # Empty stands for the queue as a whole.
    orders = sql.when(mode == "ordered", sql.array_distinct(sql.array(sql.lit(""), key))).otherwise(
        sql.array(key)
    )
    return (
        of_users(trace, window, at="started_at")
        .where(~mode.isin("concurrent", "broadcast") & (sql.col("attempt") == 1))
        .withColumn("sharding_key", sql.explode(orders))
        .where((sql.col("sharding_key") != "") | (mode == "ordered"))
        .select(*_PLACE, "queue_offset", "client", "started_at", "ended_at")
    )


def _backwards(deliveries: "DataFrame", window: Window) -> "DataFrame":
    """Find messages whose code began for the first time after that of a message behind them."""
    begun = deliveries.groupBy(*_PLACE, "queue_offset").agg(
        sql.min(sql.struct("started_at", "client")).alias("begun")
    )
    rows = begun.select(*_PLACE, "queue_offset", "begun.*")
    in_order = Over.partitionBy(*_PLACE).orderBy("started_at", "queue_offset")
    furthest = (
        sql.max(sql.struct("queue_offset", "client"))
        .over(in_order.rowsBetween(Over.unboundedPreceding, -1))
        .alias("furthest")
    )
    wrong = rows.select("*", furthest).where(
        (sql.col("furthest.queue_offset") > sql.col("queue_offset")) & within("started_at", window)
    )
    return _first(_told(wrong, "backwards", sql.col("furthest")))


def _overlaps(deliveries: "DataFrame", window: Window) -> "DataFrame":
    """Find deliveries that began while another client was at work on the same."""
    in_order = Over.partitionBy(*_PLACE).orderBy("started_at", "ended_at", "client", "queue_offset")
    # Of those that began before, the one that ends last: while it is one's own, what runs beside
    # it is told of by the later of the two.
    longest = (
        sql.max(sql.struct("ended_at", "client", "queue_offset"))
        .over(in_order.rowsBetween(Over.unboundedPreceding, -1))
        .alias("longest")
    )
    wrong = deliveries.select("*", longest).where(
        (sql.col("longest.ended_at") > sql.col("started_at"))
        & (sql.col("longest.client") != sql.col("client"))
        & within("started_at", window)
    )
    return _first(_told(wrong, "overlap", sql.col("longest")))


def _told(wrong: "DataFrame", kind: str, other: "Column") -> "DataFrame":
    return wrong.select(
        "topic",
        "group",
        sql.lit(kind).alias("kind"),
        "sharding_key",
        "queue",
        sql.lit(None).cast("int").alias("other_queue"),
        "queue_offset",
        other["queue_offset"].alias("other_offset"),
        "client",
        other["client"].alias("other_client"),
        sql.col("started_at").alias("at"),
        sql.lit("").alias("pattern"),
    )


def _first(rows: "DataFrame", *further: str) -> "DataFrame":
    """Return the first row of each place, with how many there are."""
    same = Over.partitionBy(*_PLACE, *further)
    return (
        rows.select(
            "*",
            sql.count("*").over(same).alias("times"),
            sql.row_number().over(same.orderBy("at", "queue_offset")).alias("number"),
        )
        .where(sql.col("number") == 1)
        .drop("number")
    )
