"""What several jobs say of rows: which are of a window, which are a producer's own messages.

Knows columns of bronze tables, no particular job.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from apps.engine.codec.layout import TRACE_RECALLED
from apps.pipelines.spark.jobs import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WORK_RESULTS = ("ok", "later", "error", "timeout")
"""How a consumer's work on a message may have ended."""
SEQUENCE = "sequence"
"""The numbering that leaves nothing out: 1, 2, 3 ... of a producer in a queue."""

_OWN_TOPICS = (
    r"^(%RETRY%|%DLQ%|rmq_sys_|RMQ_SYS_)|^SCHEDULE_TOPIC_XXXX$|^TRANS_CHECK_MAX_TIME_TOPIC$"
)


def within(at: str, window: Window) -> "Column":
    """Say whether a time is in a window, its end not included."""
    return (sql.col(at) >= sql.lit(window.start)) & (sql.col(at) < sql.lit(window.end))


def before(at: str, window: Window) -> "Column":
    """Say whether a time is before a window, thus of the lookback."""
    return sql.col(at) < sql.lit(window.start)


def deliveries(trace: "DataFrame") -> "DataFrame":
    """Return what was told of a consumer's work, thus no recalls."""
    return trace.where(sql.col("result") != TRACE_RECALLED)


def of_users(rows: "DataFrame", window: Window, *, at: str = "stored_at") -> "DataFrame":
    """Return rows up to the window's end whose topic is not one that the broker writes."""
    return rows.where((sql.col(at) < sql.lit(window.end)) & ~sql.col("topic").rlike(_OWN_TOPICS))


def of_producers(messages: "DataFrame", window: Window) -> "DataFrame":
    """Return what producers sent there, up to the window's end: no retries, no dead letters, nor
    what was sent again of them."""
    return of_users(messages, window).where(
        sql.col("origin_topic").isNull() & sql.col("resent_by").isNull()
    )


def may_follow_replaced() -> "Column":
    """Say whether messages before this one may have been replaced: its topic was compacted."""
    return sql.coalesce(sql.col("is_compacted"), sql.lit(False))
