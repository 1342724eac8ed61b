"""Whether the bronze tables keep their rules. Docs: docs/JOBS.md."""

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import Window as Over
from pyspark.sql import functions as sql

from apps.pipelines.catalogue import JOBS
from apps.pipelines.spark.jobs import Inputs, Outputs, Window
from apps.pipelines.spark.relations import (
    WORK_RESULTS,
    before,
    deliveries,
    may_follow_replaced,
    within,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WARN, BLOCK = "warn", "block"
KEYLESS_GROWTH_MAX = 0.1
"""By how much the share of messages without a key may be above that of the lookback."""
VOLUME_FACTOR_MAX = 5.0
"""How many times more or fewer messages than the mean of the windows before are usual."""
VOLUME_WINDOWS_MIN = 3
"""Windows before that make a mean."""
SILENCE_FACTOR_MAX = 2.0
"""How many times the mean time between messages a topic may be silent."""
SILENCE_MESSAGES_MIN = 10
"""Messages that make a mean of a topic that is younger than the lookback."""

_MESSAGES, _TRACE = "bronze.messages", "bronze.trace"


def run(inputs: Inputs, window: Window) -> Outputs:
    """Return each rule for each topic, and whether it was kept in the window."""
    messages = inputs[_MESSAGES].where(sql.col("stored_at") < sql.lit(window.end))
    trace = deliveries(inputs[_TRACE]).where(within("ended_at", window))
    return {
        "gold.quality": _of_messages(messages, window)
        .unionByName(_of_places(messages, window))
        .unionByName(_of_trace(trace))
        .unionByName(_of_both(trace, messages, window))
    }


def _of_messages(messages: "DataFrame", window: Window) -> "DataFrame":
    """Rules over a topic's messages of the window, some against the lookback."""
    is_now, is_old = within("stored_at", window), before("stored_at", window)
    has_no_key = sql.coalesce("key", sql.lit("")) == ""
    is_impossible = (
        (sql.col("store_bytes") <= 0)
        | (sql.col("body_bytes") < 0)
        | (sql.col("body_bytes") > sql.col("store_bytes"))
        | (sql.col("queue") < 0)
        | (sql.col("queue_offset") < 0)
        | (sql.col("log_offset") < 0)
        | (sql.col("reconsume_times") < 0)
        | (sql.col("seq") < 0)
    )
    found = messages.groupBy("topic").agg(
        sql.count(sql.when(is_now, 1)).alias("now"),
        sql.count(sql.when(is_old, 1)).alias("old"),
        sql.count(sql.when(is_now & has_no_key, 1)).alias("keyless_now"),
        sql.count(sql.when(is_old & has_no_key, 1)).alias("keyless_old"),
        sql.count(sql.when(is_now & is_impossible, 1)).alias("impossible"),
        sql.count(sql.when(is_now & (sql.col("due_at") < sql.col("born_at")), 1)).alias(
            "due_too_early"
        ),
        sql.unix_millis(sql.min(sql.when(is_old, sql.col("stored_at")))).alias("old_from_ms"),
        sql.unix_millis(sql.max("stored_at")).alias("newest_ms"),
        (sql.min(sql.when(is_old, sql.col("queue_offset"))) == 0).alias("is_young"),
    )
    length_s = (window.end - window.start) / timedelta(seconds=1)
    start_ms, end_ms = (sql.unix_millis(sql.lit(at)) for at in (window.start, window.end))
    now, old = sql.col("now"), sql.col("old")
    # A topic that began in the lookback had less time for its messages.
    is_young = sql.col("is_young") & (old >= SILENCE_MESSAGES_MIN)
    old_s = sql.when(is_young, (start_ms - sql.col("old_from_ms")) / 1000.0).otherwise(
        float(JOBS["quality"].lookback_s)
    )
    mean_s = old_s / old
    windows = sql.ceil((start_ms - sql.col("old_from_ms")) / sql.lit(1000 * length_s))
    has_mean = windows >= VOLUME_WINDOWS_MIN
    # One more of each: a topic that got nothing has a factor too, and few messages a small one.
    factor = (now + 1) / (old / windows + 1)
    return _ruled(
        found,
        _MESSAGES,
        _none_allowed("possible_values", BLOCK, sql.col("impossible")),
        _none_allowed("due_after_born", WARN, sql.col("due_too_early")),
        _rule(
            "key_share",
            WARN,
            sql.when(now > 0, sql.col("keyless_now") / now),
            sql.when(old > 0, sql.col("keyless_old") / old + KEYLESS_GROWTH_MAX),
        ),
        _rule(
            "freshness",
            WARN,
            (end_ms - sql.col("newest_ms")) / 1000.0,
            sql.greatest(sql.lit(length_s), sql.when(old > 0, mean_s * SILENCE_FACTOR_MAX)),
        ),
        _rule(
            "volume",
            WARN,
            sql.when(has_mean, sql.greatest(factor, 1 / factor)),
            sql.when(has_mean, sql.lit(VOLUME_FACTOR_MAX)),
        ),
    )


def _of_places(messages: "DataFrame", window: Window) -> "DataFrame":
    """Rules over the order of a queue's messages, from the last one before the window on."""
    last = (
        messages.where(before("stored_at", window))
        .groupBy("topic", "queue")
        .agg(sql.max(sql.struct("queue_offset", "stored_at")).alias("last"))
        .select(
            "topic",
            "queue",
            "last.*",
            sql.lit(False).alias("is_now"),
            sql.lit(False).alias("is_compacted"),
        )
    )
    rows = messages.where(within("stored_at", window)).select(
        "topic",
        "queue",
        "queue_offset",
        "stored_at",
        sql.lit(True).alias("is_now"),
        may_follow_replaced().alias("is_compacted"),
    )
    in_order = Over.partitionBy("topic", "queue").orderBy("queue_offset", "stored_at")
    step = sql.col("queue_offset") - sql.lag("queue_offset").over(in_order)
    found = (
        rows.unionByName(last)
        .select(
            "topic",
            "is_now",
            "is_compacted",
            step.alias("step"),
            (sql.col("stored_at") < sql.lag("stored_at").over(in_order)).alias("falls"),
        )
        .where("is_now")
        .groupBy("topic")
        .agg(
            sql.count(sql.when(sql.col("step") == 0, 1)).alias("again"),
            sql.count(sql.when(sql.col("falls"), 1)).alias("falling"),
            sql.coalesce(
                sql.sum(
                    sql.when((sql.col("step") > 1) & ~sql.col("is_compacted"), sql.col("step") - 1)
                ),
                sql.lit(0),
            ).alias("absent"),
        )
    )
    return _ruled(
        found,
        _MESSAGES,
        _none_allowed("unique_offset", BLOCK, sql.col("again")),
        _none_allowed("rising_store_time", WARN, sql.col("falling")),
        _none_allowed("whole_offsets", WARN, sql.col("absent")),
    )


def _of_trace(trace: "DataFrame") -> "DataFrame":
    is_impossible = (sql.col("attempt") < 1) | ~sql.col("result").isin(*WORK_RESULTS)
    found = trace.groupBy("topic").agg(
        sql.count(sql.when(is_impossible, 1)).alias("impossible"),
        sql.count(sql.when(sql.col("ended_at") < sql.col("started_at"), 1)).alias("ends_too_early"),
    )
    return _ruled(
        found,
        _TRACE,
        _none_allowed("possible_values", BLOCK, sql.col("impossible")),
        _none_allowed("ended_after_started", WARN, sql.col("ends_too_early")),
    )


def _of_both(trace: "DataFrame", messages: "DataFrame", window: Window) -> "DataFrame":
    """Rule: a first delivery is of a message that is there, where it was stored in the lookback.

    Nobody can tell it of a compacted topic: what was replaced before it was copied is not there.
    """
    place = ["topic", "queue", "queue_offset"]
    seen_from = window.start - timedelta(seconds=JOBS["quality"].lookback_s)
    judged = trace.where(
        (sql.col("attempt") == 1)
        & (sql.col("stored_at") >= sql.lit(seen_from))
        & (sql.col("stored_at") < sql.lit(window.end))
    ).select(*place)
    compacted = messages.where(may_follow_replaced()).select("topic").distinct()
    judged = judged.join(sql.broadcast(compacted), "topic", "left_anti")
    # Kept ones are counted too: a rule that nobody broke is told as well.
    known = messages.select(*place).withColumn("is_known", sql.lit(True))
    found = (
        judged.join(known, place, "left")
        .groupBy("topic")
        .agg(sql.count(sql.when(sql.col("is_known").isNull(), 1)).alias("strays"))
    )
    return _ruled(found, _TRACE, _none_allowed("known_message", WARN, sql.col("strays")))


def _none_allowed(rule: str, severity: str, count: "Column") -> "Column":
    return _rule(rule, severity, count, sql.lit(0.0))


def _rule(rule: str, severity: str, value: "Column", limit: "Column") -> "Column":
    """Return a rule of one topic: kept while the value is not above the limit, or either is not
    known."""
    value, limit = value.cast("double"), limit.cast("double")
    return sql.struct(
        sql.lit(rule).alias("rule"),
        sql.lit(severity).alias("severity"),
        value.alias("value"),
        limit.alias("limit"),
        sql.coalesce(value <= limit, sql.lit(True)).alias("is_kept"),
    )


def _ruled(found: "DataFrame", table: str, *rules: "Column") -> "DataFrame":
    return found.select(
        sql.lit(table).alias("table_name"), "topic", sql.explode(sql.array(*rules)).alias("rule")
    ).select("table_name", "topic", "rule.*")
