"""Copies: messages that were stored again, and deliveries that ended well again.

Both kinds are few among many, so ids are first counted by a digest, and only rows whose digest is
there twice are looked at one by one. Knows bronze tables, not what a job tells of copies.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window as Over
from pyspark.sql import functions as sql

from apps.pipelines.spark.jobs import Window
from apps.pipelines.spark.relations import SEQUENCE, of_users, within

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FAILURES = ("later", "error")


def stored(messages: "DataFrame", window: Window) -> "DataFrame":
    """Return messages of the window that an earlier one of their topic has the id or number of.

    Columns: topic, queue, queue_offset, stored_at, cause, known_by, message_id (or what stands for
    it), copies (all of them up to the window's end), first_at. A row that repeats both an id and a
    number is there once, by its id.
    """
    # An idempotent producer numbers a topic's messages as a whole.
    place = sql.when(sql.col("numbering") == SEQUENCE, sql.col("queue")).otherwise(-1)
    rows = of_users(messages, window).select(
        "topic",
        "queue",
        "queue_offset",
        "log_offset",
        "stored_at",
        "resent_by",
        sql.array(
            sql.struct(
                sql.lit("id").alias("known_by"),
                sql.col("message_id").alias("message_id"),
                sql.lit(None).cast("int").alias("place"),
                sql.lit(None).cast("bigint").alias("epoch"),
            ),
            sql.struct(
                sql.lit("number").alias("known_by"),
                sql.concat_ws(" ", "producer", "seq").alias("message_id"),
                place.alias("place"),
                sql.coalesce("epoch", sql.lit(0)).alias("epoch"),
            ),
        ).alias("names"),
        sql.col("message_id").isNotNull().alias("has_id"),
        # What the broker made of a message has its number, and is no message of the producer's.
        (
            sql.col("producer").isNotNull()
            & sql.col("seq").isNotNull()
            & sql.col("origin_topic").isNull()
            & sql.col("resent_by").isNull()
        ).alias("has_number"),
        within("stored_at", window).alias("is_in_window"),
    )
    named = (
        rows.withColumn("name", sql.explode("names"))
        .where(
            sql.when(sql.col("name.known_by") == "id", sql.col("has_id")).otherwise(
                sql.col("has_number")
            )
        )
        .select(*(set(rows.columns) - {"names", "has_id", "has_number"}), "name")
    )
    same = Over.partitionBy("topic", "name")
    in_order = same.orderBy("log_offset")
    repeated = (
        _suspects(named, "topic", "name")
        .select(
            "*",
            sql.row_number().over(in_order).alias("number"),
            sql.count("*").over(same).alias("copies"),
            sql.min("stored_at").over(same).alias("first_at"),
        )
        .where((sql.col("number") > 1) & sql.col("is_in_window"))
    )
    # "id" comes before "number", and so does the least of the two.
    return (
        repeated.groupBy("topic", "queue", "queue_offset", "stored_at")
        .agg(
            sql.min(sql.struct("name.known_by", "name.message_id", "copies", "first_at")).alias(
                "told"
            ),
            sql.max(sql.col("resent_by").isNotNull()).alias("is_letter"),
        )
        .select(
            "topic",
            "queue",
            "queue_offset",
            "stored_at",
            sql.when(sql.col("is_letter"), "retry").otherwise("resend").alias("cause"),
            "told.*",
        )
    )


def consumed(trace: "DataFrame", window: Window) -> "DataFrame":
    """Return deliveries that ended `ok` in the window after another of the same message and group.

    Columns: group, topic, queue, ended_at, cause, known_by, message_id, copies, first_at. Members
    that broadcast each get everything, which is no repetition.
    """
    name = sql.struct(
        sql.when(sql.col("message_id").isNotNull(), "id").otherwise("place").alias("known_by"),
        sql.coalesce("message_id", sql.concat_ws(" ", "queue", "queue_offset")).alias("message_id"),
    )
    rows = (
        of_users(trace, window, at="ended_at")
        .where(sql.coalesce("mode", sql.lit("")) != "broadcast")
        .select(
            "group",
            "topic",
            "queue",
            "queue_offset",
            "client",
            "attempt",
            "started_at",
            "ended_at",
            "result",
            name.alias("name"),
            within("ended_at", window).alias("is_in_window"),
        )
    )
    same = Over.partitionBy("group", "topic", "name")
    ok = sql.col("result") == "ok"
    in_order = same.orderBy("ended_at", "started_at", "attempt", "client", "queue", "queue_offset")
    earlier = in_order.rowsBetween(Over.unboundedPreceding, -1)
    place = sql.struct("queue", "queue_offset")
    attempts = sql.collect_set(sql.when(~ok, sql.struct("result", "attempt")))
    told = _suspects(rows, "group", "topic", "name", counted=ok).select(
        "*",
        sql.count(sql.when(ok, 1)).over(earlier).alias("ok_before"),
        sql.collect_set(sql.when(ok & (sql.col("attempt") == 1), place))
        .over(earlier)
        .alias("places"),
        attempts.over(earlier).alias("failed"),
        sql.min("attempt").over(earlier).alias("attempt_min"),
        sql.max("attempt").over(earlier).alias("attempt_max"),
        sql.lag("client").over(in_order).alias("client_before"),
        sql.count(sql.when(ok, 1)).over(same).alias("copies"),
        sql.min(sql.when(ok, sql.col("ended_at"))).over(same).alias("first_at"),
    )
    return told.where(ok & (sql.col("ok_before") > 0) & sql.col("is_in_window")).select(
        "group",
        "topic",
        "queue",
        "ended_at",
        _cause(place).alias("cause"),
        "name.*",
        "copies",
        "first_at",
    )


def _cause(place: "Column") -> "Column":
    """Say why a delivery came although another had ended well. The first that holds."""
    is_resent = (
        (sql.col("attempt") == 1)
        & (sql.size("places") > 0)
        & ~sql.array_contains(sql.col("places"), place)
    )
    is_retry = sql.exists(
        "failed",
        lambda one: one["result"].isin(*_FAILURES) & (one["attempt"] < sql.col("attempt")),
    )
    # The broker counts a lease that runs out as an attempt, whatever the consumer tells of it.
    is_timeout = sql.exists("failed", lambda one: one["result"] == "timeout") | (
        (sql.col("attempt_min") != sql.col("attempt"))
        | (sql.col("attempt_max") != sql.col("attempt"))
    )
    return (
        sql.when(is_resent, "resend")
        .when(is_retry, "retry")
        .when(is_timeout, "timeout")
        .when(sql.col("client_before") != sql.col("client"), "rebalance")
        .otherwise("unknown")
    )


def _suspects(rows: "DataFrame", *names: str, counted: "Column | None" = None) -> "DataFrame":
    """Return rows whose names are those of at least two that count, one of them in the window.

    By a digest: some that are alone may be among them.
    """
    digested = rows.withColumn("digest", sql.xxhash64(*names))
    one = sql.lit(True) if counted is None else counted
    repeated = (
        digested.groupBy("digest")
        .agg(sql.count(sql.when(one, 1)).alias("times"), sql.max("is_in_window").alias("is_told"))
        .where((sql.col("times") > 1) & sql.col("is_told"))
        .select("digest")
    )
    return digested.join(repeated, "digest", "left_semi").drop("digest")
