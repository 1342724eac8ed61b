"""Traces that consumers sent, decoded: messages of their topic in, rows of bronze.trace out.

Knows what is written (docs/FORMAT.md section 10) and Spark; not where messages come from. Anybody
may write to that topic, so nothing in it may end a job: what cannot be read is passed over, and
`faults` names it.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from apps.engine.codec.layout import TRACE_RECALLED, TRACE_VERSION
from apps.pipelines.spark.relations import WORK_RESULTS
from apps.pipelines.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DOCUMENT = """
    v int, group string, client string, mode string, records array<struct<
        topic: string, queue: int, offset: bigint, id: string, sharding_key: string,
        attempt: int, born_ms: bigint, stored_ms: bigint, due_ms: bigint, level: int,
        started_ms: bigint, ended_ms: bigint, result: string, error: string>>
"""
_RESULTS = (*WORK_RESULTS, TRACE_RECALLED)
_MODES = ("concurrent", "ordered", "broadcast")
_MS_MAX = 1 << 48
_NEEDED = (
    "group", "topic", "queue", "queue_offset", "client", "attempt", "started_at", "ended_at",
    "result",
)  # fmt: skip


def trace_rows(messages: "DataFrame") -> "DataFrame":
    """Return a row for each record of messages, whose body is the column `value`."""
    rows = _records(_documents(messages, ()).where(_is_known()), ())
    return rows.where(_is_whole()).select(*TABLES["bronze.trace"].names())


def faults(messages: "DataFrame") -> "DataFrame":
    """Return what `trace_rows` passes over: partition, offset, and whether a record or all of it.

    `messages` have `value`, `partition` and `offset`.
    """
    place = ("partition", "offset")
    documents = _documents(messages, place)
    whole = documents.where(~_is_known()).select(*place, sql.lit("message").alias("what"))
    records = _records(documents.where(_is_known()), place).where(~_is_whole())
    return whole.unionByName(records.select(*place, sql.lit("record").alias("what")))


def _documents(messages: "DataFrame", place: tuple[str, ...]) -> "DataFrame":
    document = sql.from_json(sql.try_validate_utf8(sql.col("value").cast("string")), _DOCUMENT)
    return messages.select(*place, document.alias("document"))


def _is_known() -> "Column":
    known = (sql.col("document.v") == TRACE_VERSION) & sql.col("document.records").isNotNull()
    return sql.coalesce(known, sql.lit(False))


def _is_whole() -> "Column":
    whole = sql.lit(True)
    for name in _NEEDED:
        whole &= sql.col(name).isNotNull()
    return whole


def _records(documents: "DataFrame", place: tuple[str, ...]) -> "DataFrame":
    told = documents.select(*place, "document", sql.explode("document.records").alias("record"))
    return told.select(
        *place,
        _text("document.group").alias("group"),
        _text("record.topic").alias("topic"),
        sql.col("record.queue").alias("queue"),
        sql.col("record.offset").alias("queue_offset"),
        _text("record.id").alias("message_id"),
        _text("record.sharding_key").alias("sharding_key"),
        _text("document.client").alias("client"),
        sql.col("record.attempt").alias("attempt"),
        _moment("record.born_ms").alias("born_at"),
        _moment("record.stored_ms").alias("stored_at"),
        _moment("record.due_ms").alias("due_at"),
        sql.col("record.level").alias("delay_level"),
        _moment("record.started_ms").alias("started_at"),
        _moment("record.ended_ms").alias("ended_at"),
        _one_of("record.result", _RESULTS).alias("result"),
        sql.coalesce(_text("record.error"), sql.lit("")).alias("error_class"),
        _one_of("document.mode", _MODES).alias("mode"),
    )


def _text(name: str) -> "Column":
    """Return a text without NUL, which no database takes."""
    return sql.translate(sql.col(name), "\0", "")


def _one_of(name: str, words: tuple[str, ...]) -> "Column":
    return sql.when(sql.col(name).isin(*words), sql.col(name))


def _moment(name: str) -> "Column":
    """Return a time; null for what no clock can show, which would end the job."""
    ms = sql.col(name)
    return sql.when(ms.between(0, _MS_MAX), sql.timestamp_millis(ms))
