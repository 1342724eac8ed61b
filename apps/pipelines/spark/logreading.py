"""The store's log as DataFrames of settled ranges, and its rows as `bronze.messages` has them.

Knows the source `mqweb` and the engine's view of a foreign store; no manifest. Ranges are settled
once and given to Spark as numbers, so that whatever is read again is the same.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec import layout
from apps.engine.codec import properties as names
from apps.engine.errors import UnknownTopic
from apps.engine.offline.slices import QueueExtent
from apps.engine.offline.view import StoreView
from apps.pipelines.spark.holding import PLAN_LEASE_MS
from apps.pipelines.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MESSAGES = TABLES["bronze.messages"]

# Numbers that a client gives its messages without the broker's help.
_SEQ_PRODUCER, _SEQ_NUMBER, _SEQ_EPOCH = "SEQ_PRODUCER", "SEQ_NUMBER", "SEQ_EPOCH"

SOURCE_COLUMNS = (
    "topic string, partition int, offset bigint, commitLogOffset bigint, messageId string, "
    "key binary, tags string, shardingKey string, producerId string, seq bigint, "
    "timestamp timestamp, storeTimestamp timestamp, dueTimestamp timestamp, reconsumeTimes int, "
    "bornHost string, storeSize int, headers array<struct<key:string,value:binary>>, value binary"
)

Key = tuple[str, int]
Ranges = Mapping[Key, tuple[int, int]]
"""First and end of queue offsets, the end not included, by topic and queue."""


@dataclass(frozen=True, slots=True)
class Extents:
    """What a store has at one moment; `compacted` are those of the topics that are compacted."""

    store_id: str
    queues: Mapping[Key, QueueExtent]
    compacted: frozenset[str]


@dataclass(frozen=True, slots=True)
class Kept:
    """A stretch of a compacted queue: below `border` just `offsets` int64[n] must be there."""

    border: int
    offsets: NDArray[np.int64]

    def missing(self, first: int, end: int, found: NDArray[np.int64]) -> int:
        """Return how many offsets of a stretch must be there and are not in `found`."""
        kept = self.offsets[(self.offsets >= first) & (self.offsets < end)]
        behind = np.arange(max(first, self.border), end)
        must = np.union1d(kept, behind)
        return len(must) - int(np.isin(must, found).sum())


def look(view: StoreView, topics: Collection[str]) -> Extents:
    """Return the queues of topics; a topic that is not there has none."""
    queues: dict[Key, QueueExtent] = {}
    for topic in sorted(topics):
        try:
            extents = view.extents(topic)
        except UnknownTopic:
            continue
        queues.update({(one.topic, one.queue): one for one in extents})
    return Extents(
        store_id=view.store.identity.store_id.hex(),
        queues=queues,
        compacted=frozenset(topic for topic in topics if view.is_compacted(topic)),
    )


def kept_now(store: Path, ranges: Ranges, compacted: Collection[str]) -> dict[Key, Kept]:
    """Return what is kept of ranges of compacted topics at this moment.

    A round only ever takes away. So what was copied before must have all of it, and whatever else
    of those offsets it lacks was replaced.
    """
    chosen = {key: span for key, span in ranges.items() if key[0] in compacted}
    if not chosen:
        return {}
    view = StoreView(store)
    try:
        return {key: Kept(*view.kept(*key, *span)) for key, span in chosen.items()}
    finally:
        view.close()


def rows_of(ranges: Ranges) -> int:
    """Return how many messages ranges are."""
    return sum(end - first for first, end in ranges.values())


def log_offset(view: StoreView, ranges: Ranges) -> int:
    """Return a log offset no message of ranges lies below; the end of the log for no messages."""
    spans = ((key, span) for key, span in ranges.items() if span[0] < span[1])
    places = (view.log_offset(view.cut(*key, *span)) for key, span in spans)
    return min(places, default=view.synced_offset)


def read(spark: "SparkSession", store: Path, ranges: Ranges) -> "DataFrame":
    """Return the messages of ranges with the source's columns; there must be some.

    The caller holds the log.
    """
    chosen = {key: span for key, span in ranges.items() if span[0] < span[1]}
    return (
        spark.read.format("mqweb")
        .schema(SOURCE_COLUMNS)
        .option("path", str(store))
        .option("assign", json.dumps(_by_topic({key: key[1] for key in chosen})))
        .option("startingOffsets", offsets(chosen, 0))
        .option("endingOffsets", offsets(chosen, 1))
        .option("segmentLeaseMs", str(PLAN_LEASE_MS))
        .load()
    )


def offsets(ranges: Ranges, which: int) -> str:
    """Return the firsts (0) or the ends (1) of ranges as the source's options take them."""
    document: dict[str, dict[str, int]] = {}
    for (topic, queue), span in ranges.items():
        document.setdefault(topic, {})[str(queue)] = span[which]
    return json.dumps(document, sort_keys=True)


def _by_topic(queues: Mapping[Key, int]) -> dict[str, list[int]]:
    document: dict[str, list[int]] = {}
    for topic, queue in sorted(queues):
        document.setdefault(topic, []).append(queue)
    return document


def messages_of(
    rows: "DataFrame", *, bodies: bool = True, compacted: Collection[str] = ()
) -> "DataFrame":
    """Return rows of the source as `bronze.messages` has them; without `bodies` those are null.

    A message is numbered by SEQ_PRODUCER where a client has numbered it, and else by what an
    idempotent producer told the broker: never half by one and half by the other.
    """
    from pyspark.sql import functions as sql

    column = sql.col
    said = sql.col("properties")
    is_numbered = said[_SEQ_PRODUCER].isNotNull() & said[_SEQ_NUMBER].isNotNull()
    is_returned = reduce(
        lambda one, other: one | other,
        [column("topic").startswith(p) for p in (layout.RETRY_PREFIX, layout.DEAD_LETTER_PREFIX)],
    )

    def text(value: "Column") -> "Column":
        # Anybody may send bytes that are no text; readers of Parquet would stumble over them.
        return sql.make_valid_utf8(value.cast("string"))

    def origin(value: "Column") -> "Column":
        return sql.when(is_returned, value)

    pairs = sql.transform(
        sql.filter("headers", lambda pair: pair["key"].isNotNull()),
        lambda pair: sql.struct(text(pair["key"]), text(pair["value"])),
    )
    made: dict[str, Column] = {
        "topic": column("topic"),
        "queue": column("partition"),
        "queue_offset": column("offset"),
        "log_offset": column("commitLogOffset"),
        "message_id": text(column("messageId")),
        "key": text(column("key")),
        "tag": text(column("tags")),
        "sharding_key": text(column("shardingKey")),
        "producer": sql.when(is_numbered, said[_SEQ_PRODUCER]).otherwise(
            text(column("producerId"))
        ),
        "numbering": sql.when(is_numbered, "sequence").when(
            column("producerId").isNotNull(), "idempotent"
        ),
        "epoch": sql.when(is_numbered, said[_SEQ_EPOCH].try_cast("bigint")),
        "seq": sql.when(is_numbered, said[_SEQ_NUMBER].try_cast("bigint")).otherwise(column("seq")),
        "born_at": column("timestamp"),
        "stored_at": column("storeTimestamp"),
        "due_at": column("dueTimestamp"),
        "reconsume_times": column("reconsumeTimes"),
        "origin_topic": origin(sql.coalesce(said[names.DLQ_ORIGIN_TOPIC], said[names.RETRY_TOPIC])),
        "origin_queue": origin(said[names.ORIGIN_QUEUE].try_cast("int")),
        "origin_offset": origin(said[names.ORIGIN_OFFSET].try_cast("bigint")),
        "resent_by": said[names.RESENT_BY],
        "born_host": column("bornHost"),
        "store_bytes": column("storeSize"),
        "body_bytes": sql.octet_length("value"),
        "properties": said,
        "body": column("value") if bodies else sql.lit(None).cast("binary"),
        "is_compacted": column("topic").isin(sorted(compacted)) if compacted else sql.lit(False),
    }
    with_properties = rows.withColumn("properties", sql.map_from_entries(pairs))
    return with_properties.select(*(made[name].alias(name) for name in MESSAGES.names()))
