"""Uneven queues and hot keys. Docs: docs/JOBS.md."""

from typing import TYPE_CHECKING

from pyspark.sql import Window as Over
from pyspark.sql import functions as sql

from apps.pipelines.spark.jobs import Inputs, Outputs, Window
from apps.pipelines.spark.relations import of_users, within

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HOT_KEYS = 20

_QUEUE = ("topic", "queue")


def run(inputs: Inputs, window: Window) -> Outputs:
    """Return how a topic's load is shared by its queues, and its hottest keys."""
    seen = of_users(inputs["bronze.messages"], window)
    # As many queues as were seen in the lookback too: one that gets nothing is uneven as well.
    queues = seen.groupBy("topic").agg((sql.max("queue") + 1).alias("queues"))
    rows = seen.where(within("stored_at", window))
    loads = rows.groupBy(*_QUEUE).agg(
        sql.count("*").alias("messages"), sql.sum("store_bytes").cast("bigint").alias("bytes")
    )
    totals = loads.groupBy("topic").agg(sql.sum("messages").alias("in_topic"))
    return {
        "gold.queue_shares": _shares(loads, totals, _rehashed(rows, queues), queues),
        "gold.hot_keys": _hot_keys(rows, totals),
    }


def _rehashed(rows: "DataFrame", queues: "DataFrame") -> "DataFrame":
    """Count messages by queue as if each sharding key went by a good hash; others stay."""
    counted = rows.groupBy("topic", "queue", "sharding_key").agg(sql.count("*").alias("messages"))
    is_keyed = sql.col("sharding_key").isNotNull()
    queue = sql.when(
        is_keyed, sql.pmod(sql.xxhash64("sharding_key"), sql.col("queues")).cast("int")
    ).otherwise(sql.col("queue"))
    return (
        counted.join(sql.broadcast(queues), "topic")
        .groupBy("topic", queue.alias("queue"))
        .agg(
            sql.sum("messages").alias("rehashed"),
            sql.sum(sql.when(is_keyed, sql.col("messages")).otherwise(0)).alias("keyed"),
        )
    )


def _shares(
    loads: "DataFrame", totals: "DataFrame", rehashed: "DataFrame", queues: "DataFrame"
) -> "DataFrame":
    every = totals.join(queues, "topic").withColumn(
        "queue", sql.explode(sql.sequence(sql.lit(0), sql.col("queues") - 1))
    )
    topic = Over.partitionBy("topic")
    filled = (
        every.join(loads, list(_QUEUE), "left")
        .join(rehashed, list(_QUEUE), "left")
        .fillna(0, ["messages", "bytes", "rehashed", "keyed"])
        .select(
            "*",
            sql.row_number().over(topic.orderBy("messages", "queue")).alias("place"),
            sql.sum("keyed").over(topic).alias("keyed_in_topic"),
        )
    )
    weighed = sql.sum((2 * sql.col("place") - sql.col("queues") - 1) * sql.col("messages")).over(
        topic
    )
    in_all = sql.col("in_topic")
    return filled.select(
        *_QUEUE,
        "messages",
        "bytes",
        (sql.col("messages") / in_all).alias("share"),
        sql.when(sql.col("keyed_in_topic") > 0, sql.col("rehashed") / in_all).alias(
            "share_if_rehashed"
        ),
        (weighed / (sql.col("queues") * in_all)).alias("gini"),
        (sql.max("messages").over(topic) * sql.col("queues") / in_all).alias("max_to_mean"),
    )


def _hot_keys(rows: "DataFrame", totals: "DataFrame") -> "DataFrame":
    keyed = _with_key(rows, "sharding_key", sql.array("sharding_key")).unionByName(
        # A message has one row for each of its keys, however often it names it.
        _with_key(rows, "key", sql.array_distinct(sql.split("key", " +")))
    )
    of_key = ("topic", "key_kind", "key")
    ranking = Over.partitionBy("topic", "key_kind").orderBy(sql.desc("messages"), "key")
    return (
        keyed.groupBy(*of_key, "queue")
        .agg(sql.count("*").alias("messages"), sql.sum("store_bytes").alias("bytes"))
        .groupBy(*of_key)
        .agg(
            sql.sum("messages").alias("messages"),
            sql.sum("bytes").cast("bigint").alias("bytes"),
            sql.count("*").cast("int").alias("queues"),
        )
        .withColumn("rank", sql.row_number().over(ranking))
        .where(sql.col("rank") <= HOT_KEYS)
        .join(totals, "topic")
        .select(
            *of_key,
            "rank",
            "messages",
            "bytes",
            (sql.col("messages") / sql.col("in_topic")).alias("share"),
            "queues",
        )
    )


def _with_key(rows: "DataFrame", kind: str, keys: "Column") -> "DataFrame":
    return (
        rows.where(sql.col(kind).isNotNull())
        .select("topic", "queue", "store_bytes", sql.explode(keys).alias("key"))
        .where(sql.col("key") != "")
        .withColumn("key_kind", sql.lit(kind))
    )
