"""Lost messages: numbers of a producer that nothing in their queue has. Docs: docs/JOBS.md."""

from typing import TYPE_CHECKING

from pyspark.sql import Window as Over
from pyspark.sql import functions as sql

from apps.pipelines.spark import copies
from apps.pipelines.spark.jobs import Inputs, Outputs, Window
from apps.pipelines.spark.relations import (
    SEQUENCE,
    before,
    may_follow_replaced,
    of_producers,
    within,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_RUN = ("topic", "queue", "producer", "epoch")
_FIRST_NUMBER = 1
_COUNTS = (
    "messages",
    "numbered",
    "producers",
    "gaps",
    "missing",
    "recovered",
    "stored_twice",
    "consumed_twice",
)


def run(inputs: Inputs, window: Window) -> Outputs:
    """Return the gaps that showed in the window, and the matrix of losses and repeats."""
    messages = of_producers(inputs["bronze.messages"], window)
    places = _judged(_places(_numbered(messages), messages, window), window)
    gaps = _gaps(places)
    totals = _summed(
        _looked_at(messages, window),
        gaps.groupBy("topic", "queue").agg(
            sql.count("*").alias("gaps"), sql.sum("missing").alias("missing")
        ),
        _recovered(places),
        copies.stored(inputs["bronze.messages"], window)
        .groupBy("topic", "queue")
        .agg(sql.count("*").alias("stored_twice")),
        copies.consumed(inputs["bronze.trace"], window)
        .groupBy("topic", "queue")
        .agg(sql.count("*").alias("consumed_twice")),
    )
    return {"gold.loss": gaps, "gold.loss_totals": totals}


def _is_numbered() -> "Column":
    """Say whether a message has a number of a kind that leaves none out, and all others stayed."""
    return (
        (sql.col("numbering") == SEQUENCE)
        & sql.col("producer").isNotNull()
        & (sql.col("seq") >= _FIRST_NUMBER)
        & ~may_follow_replaced()
    )


def _numbered(messages: "DataFrame") -> "DataFrame":
    return messages.where(_is_numbered()).select(
        "topic",
        "queue",
        "producer",
        sql.coalesce("epoch", sql.lit(0)).alias("epoch"),
        "seq",
        "queue_offset",
        "stored_at",
    )


def _places(numbered: "DataFrame", messages: "DataFrame", window: Window) -> "DataFrame":
    """Return each number's first storing, with what was before and behind it.

    `below` is the next lower number that is there, or what stands for it at the beginning of a
    producer: 0 where that is known to be in what is looked at, else the number before.
    `behind` is the first message stored that has this number or a higher one: since when a gap
    below it shows.
    """
    # One sort: of equal numbers the one stored first comes last, and the next row is lower.
    downward = Over.partitionBy(*_RUN).orderBy(sql.desc("seq"), sql.desc("queue_offset"))
    whole = downward.rowsBetween(Over.unboundedPreceding, Over.unboundedFollowing)
    rows = numbered.select(
        "*",
        sql.lead("seq").over(downward).alias("lower"),
        sql.min(sql.struct("queue_offset", "stored_at"))
        .over(downward.rowsBetween(Over.unboundedPreceding, Over.currentRow))
        .alias("behind"),
        sql.min(sql.when(before("stored_at", window), sql.col("seq")))
        .over(whole)
        .alias("known_from"),
    ).where(sql.col("lower").isNull() | (sql.col("lower") < sql.col("seq")))
    began = messages.groupBy("topic", "queue").agg(
        sql.min("queue_offset").alias("queue_from"), sql.min("stored_at").alias("seen_from")
    )
    is_from_first = (sql.col("queue_from") == 0) | (
        sql.unix_millis("seen_from") <= sql.col("epoch")
    )
    return rows.join(sql.broadcast(began), ["topic", "queue"]).select(
        *_RUN,
        "seq",
        "stored_at",
        "behind",
        "known_from",
        is_from_first.alias("is_from_first"),
        sql.coalesce(
            "lower", sql.when(is_from_first, _FIRST_NUMBER - 1).otherwise(sql.col("seq") - 1)
        ).alias("below"),
    )


def _judged(places: "DataFrame", window: Window) -> "DataFrame":
    """Return the few places that are told of: `is_gap` below them, or `is_recovered` themselves.

    Both outputs are made of them, so they are kept and the numbers put in order once.
    """
    was_told = before("behind.stored_at", window) & (
        sql.col("is_from_first") | (sql.col("known_from") < sql.col("seq"))
    )
    return (
        places.withColumn(
            "is_gap",
            (sql.col("seq") - sql.col("below") > 1) & within("behind.stored_at", window),
        )
        .withColumn("is_recovered", was_told & within("stored_at", window))
        .where("is_gap or is_recovered")
        .persist()
    )


def _gaps(places: "DataFrame") -> "DataFrame":
    return places.where("is_gap").select(
        *_RUN,
        (sql.col("below") + 1).alias("first_seq"),
        (sql.col("seq") - 1).alias("last_seq"),
        (sql.col("seq") - sql.col("below") - 1).alias("missing"),
        sql.col("behind.queue_offset").alias("next_offset"),
        sql.col("behind.stored_at").alias("found_at"),
    )


def _recovered(places: "DataFrame") -> "DataFrame":
    """Count numbers whose gap showed before the window and that came in it."""
    return (
        places.where("is_recovered")
        .groupBy("topic", "queue")
        .agg(sql.count("*").alias("recovered"))
    )


def _looked_at(messages: "DataFrame", window: Window) -> "DataFrame":
    whose = sql.struct("producer", sql.coalesce("epoch", sql.lit(0)))
    return (
        messages.where(within("stored_at", window))
        .groupBy("topic", "queue")
        .agg(
            sql.count("*").alias("messages"),
            sql.count(sql.when(_is_numbered(), 1)).alias("numbered"),
            sql.count_distinct(sql.when(_is_numbered(), whose)).alias("producers"),
        )
    )


def _summed(*parts: "DataFrame") -> "DataFrame":
    """Return one row a queue with all counts, 0 where no part has one."""
    rows = None
    for part in parts:
        found = part.select(
            "topic",
            "queue",
            *(
                sql.col(name) if name in part.columns else sql.lit(0).cast("bigint").alias(name)
                for name in _COUNTS
            ),
        )
        rows = found if rows is None else rows.unionByName(found)
    assert rows is not None
    return rows.groupBy("topic", "queue").agg(*(sql.sum(name).alias(name) for name in _COUNTS))
