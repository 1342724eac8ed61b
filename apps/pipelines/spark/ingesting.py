"""Copy what is new in the log to bronze.

What has been copied is known by positions, which move in the transaction that publishes the files.
So a message is in bronze once, whatever is killed, and whether this or a stream copied it.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apps.engine.codec.layout import TRACE_TOPIC
from apps.engine.offline.view import StoreView
from apps.groups.models.fields import TOPIC_CHARACTERS_MAX
from apps.pipelines.models import IngestPosition, PipelineRun
from apps.pipelines.place import Place
from apps.pipelines.services import presence
from apps.pipelines.services.publications import InputRange, Move, Publication, StagedFile
from apps.pipelines.spark import logreading
from apps.pipelines.spark.holding import holding
from apps.pipelines.spark.logreading import Extents, Key, Ranges, messages_of
from apps.pipelines.spark.staging import Staging, check_offsets
from apps.pipelines.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

_TOPIC = f"^[%|a-zA-Z0-9_-]{{1,{TOPIC_CHARACTERS_MAX}}}$"

MESSAGES, TRACE = TABLES["bronze.messages"], TABLES["bronze.trace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be copied: settled ranges, where positions were, and what is gone already.

    No message of the ranges lies in the log below `log_offset`. Of `compacted` topics the ranges
    have offsets that were replaced; `replaced` is how many.
    """

    store_id: str
    ranges: Ranges
    known: Mapping[Key, int]
    lost: Ranges
    compacted: frozenset[str]
    replaced: int
    log_offset: int

    def of(self, *, traces: bool) -> dict[Key, tuple[int, int]]:
        """Return the ranges of messages, or of traces."""
        return {key: span for key, span in self.ranges.items() if (key[0] == TRACE_TOPIC) is traces}


def plan(store: Path, topics: Collection[str]) -> Plan:
    """Settle what is new in the log; of all topics but those of streams where none is named.

    Raises EngineError where there is no whole store.
    """
    view = StoreView(store)
    try:
        return _planned(view, logreading.look(view, topics or wanted_topics(view)))
    finally:
        view.close()


def _planned(view: StoreView, extents: Extents) -> Plan:
    known = positions(extents.store_id)
    ranges, lost, replaced = {}, {}, 0
    for key, extent in extents.queues.items():
        begin = known.get(key, extent.min_offset)
        if begin < extent.min_offset:
            lost[key] = (begin, extent.min_offset)
            told_lost(key, begin, extent.min_offset)
        first, end = max(begin, extent.min_offset), extent.max_offset
        if first >= end:
            continue
        ranges[key] = (first, end)
        if key[0] in extents.compacted:
            border, kept = view.kept(*key, first, end)
            replaced += max(0, min(border, end) - first) - len(kept)
    return Plan(
        store_id=extents.store_id,
        ranges=ranges,
        known=known,
        lost=lost,
        compacted=extents.compacted,
        replaced=replaced,
        log_offset=logreading.log_offset(view, ranges),
    )


def wanted_topics(view: StoreView) -> list[str]:
    """Return the topics that no stream copies at this moment, and that of traces."""
    streamed: set[str] = set()
    for stream in presence.streams_there():
        if not stream.topics:
            return [TRACE_TOPIC]
        streamed.update(stream.topics)
    return [TRACE_TOPIC, *(topic for topic in view.matching(".*") if topic not in streamed)]


def told_lost(key: Key, first: int, end: int) -> None:
    """Log that messages were gone before they were copied."""
    extra = {"topic": key[0], "queue": key[1], "first": first, "end": end}
    _log.warning("ingest_lost", extra=extra)


def positions(store_id: str) -> dict[Key, int]:
    """Return how far each queue of a store has been copied."""
    return {
        (one.topic, one.queue): one.next_offset
        for one in IngestPosition.objects.filter(store_id=store_id)
    }


def table_of(topic: str) -> str:
    """Return the table that messages of a topic are copied to."""
    return TRACE.name if topic == TRACE_TOPIC else MESSAGES.name


def ingest(
    spark: "SparkSession", run: PipelineRun, place: Place, staging: Staging, tell: Any
) -> Publication:
    """Stage what is new in the log. Raises NotReconciled, and what the source raises."""
    planned = plan(place.store, run.topics)
    tell("reading the log", logreading.rows_of(planned.ranges) - planned.replaced)
    with holding(place.store, f"run-{run.pk}", planned.log_offset):
        copied = _copied(spark, planned, place, staging)
        traced = _traced(spark, planned.of(traces=True), place, staging)
    # A round between plan and task may have replaced more: the files were compared with what is
    # kept, and say how many messages there were.
    rows = {key: end - first for key, (first, end) in planned.ranges.items()}
    rows.update(copied.rows)
    return Publication(
        files=(*copied.files, *traced.files),
        inputs=[
            InputRange(
                table=table_of(topic),
                topic=topic,
                queue=queue,
                first_offset=first,
                end_offset=end,
                rows=rows[topic, queue],
            )
            for (topic, queue), (first, end) in sorted(planned.ranges.items())
        ],
        moves=moves(planned),
        rows_expected=sum(rows.values()),
        rows_read=copied.read + traced.read,
        rows_made=copied.made + traced.made,
        facets={
            "store": planned.store_id,
            "lost": [[*key, *span] for key, span in sorted(planned.lost.items())],
            "compacted": sorted({topic for topic, _ in planned.ranges} & planned.compacted),
        },
    )


def moves(planned: Plan) -> list[Move]:
    """Return how positions move when a plan is carried out."""
    return [
        Move(
            table=table_of(topic),
            store_id=planned.store_id,
            topic=topic,
            queue=queue,
            known=planned.known.get((topic, queue)),
            next_offset=end,
        )
        for (topic, queue), (_, end) in sorted(planned.ranges.items())
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Files, and what was counted on the way to them."""

    files: tuple[StagedFile, ...] = ()
    read: int = 0
    made: int = 0
    rows: Mapping[Key, int] = field(default_factory=dict)


def _copied(spark: "SparkSession", planned: Plan, place: Place, staging: Staging) -> Copied:
    ranges = planned.of(traces=False)
    if not ranges:
        return Copied()
    rows, read = counted(logreading.read(spark, place.store, ranges))
    messages = messages_of(rows, bodies=place.bodies, compacted=planned.compacted)
    files = staging.write(messages, MESSAGES)
    kept = logreading.kept_now(place.store, ranges, planned.compacted)
    counts = check_offsets(files, ranges, kept)
    return Copied(files=tuple(files), read=read(), made=sum(counts.values()), rows=counts)


def _traced(spark: "SparkSession", ranges: Ranges, place: Place, staging: Staging) -> Copied:
    if not ranges:
        return Copied()
    from pyspark.sql import functions as sql

    from apps.pipelines.spark.tracing import trace_rows

    rows, read = counted(logreading.read(spark, place.store, ranges))
    # Anybody may write there: what names no topic is not to become the name of a directory.
    named = trace_rows(rows).where(sql.col("topic").rlike(_TOPIC))
    traces, made = counted(named)
    files = staging.write(traces, TRACE)
    return Copied(files=tuple(files), read=read(), made=made())


def counted(frame: "DataFrame") -> "tuple[DataFrame, Any]":
    """Return a frame, and what tells after its one action how many rows went through it."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    observation = Observation()
    watched = frame.observe(observation, sql.count(sql.lit(1)).alias("rows"))
    return watched, lambda: int(observation.get["rows"])
