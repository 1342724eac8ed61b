"""Retries: how many attempts messages took, how they ended, why they failed.

Docs: docs/JOBS.md. A message is its place, which stays the same however often it comes;
letters are found by its id. What became a dead letter without a trace is known by its letter.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from apps.pipelines.spark.jobs import Inputs, Outputs, Window
from apps.pipelines.spark.relations import deliveries, within

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

POISON_TRIES = 3
"""A message that failed so often is poison, where more messages of its topic passed than failed."""
_ACCURACY = 10_000
_PLACE = ("group", "topic", "queue", "queue_offset")
# What a consumer gives as a reason: the exception as Python writes it.
_EXCEPTION = r"^([A-Za-z_][A-Za-z0-9_.]*)\("
_REASON_CHARACTERS_MAX = 120


def run(inputs: Inputs, window: Window) -> Outputs:
    """Return messages whose last attempt or death lies in the window, and failures in it."""
    until = sql.lit(window.end)
    trace = deliveries(inputs["bronze.trace"]).where(sql.col("ended_at") < until)
    ended = _ended(trace, _last_letters(inputs["input.letters"].where(sql.col("dead_at") < until)))
    here = ended.where(within("last_at", window))
    took_s = (sql.unix_micros("last_at") - sql.unix_micros("first_at")) / 1e6
    retries = here.groupBy("topic", "group", "attempts", "final").agg(
        sql.count("*").alias("messages"),
        sql.percentile_approx(took_s, 0.5, _ACCURACY).alias("p50_s"),
        sql.percentile_approx(took_s, 0.99, _ACCURACY).alias("p99_s"),
    )
    return {"gold.retries": retries, "gold.dead_causes": _causes(trace, ended, window)}


def _last_letters(letters: "DataFrame") -> "DataFrame":
    """Return one letter a message: one that was sent again may have died again."""
    return letters.groupBy("group", "topic", "message_id").agg(
        sql.max("dead_at").alias("dead_at"),
        sql.max_by("attempts", "dead_at").alias("letter_attempts"),
        sql.max_by("first_failed_at", "dead_at").alias("first_failed_at"),
        sql.max_by("reason", "dead_at").alias("reason"),
    )


def _ended(trace: "DataFrame", letters: "DataFrame") -> "DataFrame":
    """Return how each message ended, by place; without one for letters that nobody traced."""
    messages = trace.groupBy(*_PLACE).agg(
        sql.max("message_id").alias("message_id"),
        sql.max("attempt").alias("tried"),
        sql.min("started_at").alias("started_at"),
        sql.max("ended_at").alias("ended_at"),
        sql.max(sql.when(sql.col("result") == "ok", sql.col("ended_at"))).alias("done_at"),
    )
    dead, done = sql.col("dead_at"), sql.col("done_at")
    is_dead = dead.isNotNull() & (done.isNull() | (dead > done))
    joined = messages.join(letters, ["group", "topic", "message_id"], "full")
    return joined.select(
        *_PLACE,
        "reason",
        sql.greatest("tried", sql.when(is_dead, sql.col("letter_attempts"))).alias("attempts"),
        sql.when(is_dead, "dead").when(done.isNotNull(), "done").otherwise("open").alias("final"),
        sql.coalesce("started_at", "first_failed_at").alias("first_at"),
        sql.greatest("ended_at", sql.when(is_dead, dead)).alias("last_at"),
        sql.col("queue").isNotNull().alias("is_traced"),
    )


def _causes(trace: "DataFrame", ended: "DataFrame", window: Window) -> "DataFrame":
    here = trace.where(within("ended_at", window))
    failed = here.where(sql.col("result") != "ok").withColumn(
        "error_class",
        sql.when(sql.col("error_class") != "", sql.col("error_class")).otherwise(sql.col("result")),
    )
    by_message = failed.groupBy(*_PLACE, "error_class").agg(sql.count("*").alias("failures"))
    finals = ended.where("is_traced").select(*_PLACE, (sql.col("final") == "dead").alias("is_dead"))
    traced = by_message.join(finals, list(_PLACE)).drop("queue", "queue_offset")
    untraced = ended.where(~sql.col("is_traced") & within("last_at", window)).select(
        "group",
        "topic",
        _class_in_reason().alias("error_class"),
        sql.col("attempts").cast("bigint").alias("failures"),
        sql.lit(True).alias("is_dead"),
    )
    passed = here.where(sql.col("result") == "ok").groupBy("group", "topic")
    passed_counts = passed.agg(
        sql.count_distinct("queue", "queue_offset").alias("passed"),
    )
    is_often = sql.col("failures") >= POISON_TRIES * sql.col("messages")
    causes = (
        traced.unionByName(untraced)
        .groupBy("topic", "group", "error_class")
        .agg(
            sql.sum("failures").alias("failures"),
            sql.count("*").alias("messages"),
            sql.count(sql.when(sql.col("is_dead"), 1)).alias("dead"),
        )
        .join(passed_counts, ["group", "topic"], "left")
    )
    is_few = sql.coalesce(sql.col("passed"), sql.lit(0)) > sql.col("messages")
    return causes.select(
        "topic", "group", "error_class", "failures", "messages", "dead",
        (is_often & is_few).alias("is_poison"),
    )  # fmt: skip


def _class_in_reason() -> "Column":
    found = sql.regexp_extract("reason", _EXCEPTION, 1)
    said = sql.substring("reason", 1, _REASON_CHARACTERS_MAX)
    return sql.when(found != "", found).when(said != "", said).otherwise("unknown")
