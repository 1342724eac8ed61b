"""Copy what is new in the log to bronze without an end: batch by batch, each published at once.

Spark's checkpoint says where the next batch begins; positions say what is published. A batch that
comes again, or from the start after a checkpoint was lost, is compared with them and changes
nothing. Knows Spark's streams and publishing; not who starts a stream.
"""

import logging
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.db import close_old_connections

from apps.core.moments import moment
from apps.engine.clock import Clock, SystemClock
from apps.engine.offline.view import StoreView
from apps.pipelines import lakepaths
from apps.pipelines.models import PipelineStream
from apps.pipelines.place import Place
from apps.pipelines.services import publishing
from apps.pipelines.services.publications import Move, Publication
from apps.pipelines.spark import ingesting, logreading
from apps.pipelines.spark.ingesting import MESSAGES
from apps.pipelines.spark.logreading import Key, messages_of
from apps.pipelines.spark.staging import Staging, check_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

ROWS_A_BATCH = 50_000


def stream(
    spark: "SparkSession",
    place: Place,
    row: PipelineStream,
    *,
    rows_a_batch: int = ROWS_A_BATCH,
    trigger: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
) -> Any:
    """Start a stream and return Spark's query; `row` is the stream's, and this is its worker.

    It copies the topics of the row, or all that are there and will be but the broker's inner ones.
    `trigger` is Spark's, by default `processingTime="10 seconds"`. Raises
    EngineError where there is no whole store.
    """
    store_id, options = _options(place, row)
    publisher = BatchPublisher(row, place, store_id, clock=clock)
    source = spark.readStream.format("mqweb").schema(logreading.SOURCE_COLUMNS)
    return (
        source.options(path=str(place.store), maxOffsetsPerTrigger=str(rows_a_batch), **options)
        .load()
        .writeStream.foreachBatch(publisher)
        .queryName(row.name)
        .option("checkpointLocation", str(lakepaths.checkpoint(place.lake, row.pk)))
        .trigger(**(trigger or {"processingTime": "10 seconds"}))
        .start()
    )


def _options(place: Place, row: PipelineStream) -> tuple[str, dict[str, str]]:
    """Return the store's id, and the options that say which messages a stream begins with."""
    view = StoreView(place.store)
    try:
        extents = logreading.look(view, row.topics or view.matching(".*"))
    finally:
        view.close()
    known = ingesting.positions(extents.store_id)
    begins: dict[Key, tuple[int, int]] = {}
    for key, extent in extents.queues.items():
        begin = known.get(key, extent.min_offset)
        if begin < extent.min_offset:
            ingesting.told_lost(key, begin, extent.min_offset)
        begins[key] = (max(begin, extent.min_offset), extent.max_offset)
    options = {"startingOffsets": logreading.offsets(begins, 0)}
    if row.topics:
        options["subscribe"] = ",".join(row.topics)
    else:
        options["subscribePattern"] = ".*"
    return extents.store_id, options


class BatchPublisher:
    """Publishes the batches of a stream; a batch that comes again changes nothing."""

    def __init__(
        self, row: PipelineStream, place: Place, store_id: str, *, clock: Clock | None = None
    ) -> None:
        """Bind to the stream's row, whose worker this is."""
        self._row = row
        self._place = place
        self._store_id = store_id
        self._clock = clock or SystemClock()

    def __call__(self, rows: "DataFrame", number: int) -> None:
        """Publish a batch; what positions say is copied already is left out.

        Raises as `publishing.publish_batch` does; the batch then comes again.
        """
        rows.persist()
        try:
            self._publish(rows, number)
        finally:
            rows.unpersist()
            # Spark calls from threads of its own, and each would keep a connection.
            close_old_connections()

    def _publish(self, rows: "DataFrame", number: int) -> None:
        began_ms = self._clock.monotonic_ms()
        known = ingesting.positions(self._store_id)
        found = _ranges(rows)
        fresh = {
            key: (max(first, known.get(key, 0)), end)
            for key, (first, end) in found.items()
            if known.get(key, 0) < end
        }
        if fresh != found:
            extra = {"stream": self._row.name, "batch": number}
            _log.info("batch_repeated", extra=extra)
        if not fresh:
            return
        compacted = self._compacted(fresh)
        for key, (first, end) in fresh.items():
            if first <= known.get(key, first):
                continue
            if key[0] in compacted:
                # What lies between was replaced, which is looked at with the rest.
                fresh[key] = (known[key], end)
            else:
                ingesting.told_lost(key, known[key], first)
        token = secrets.token_hex(4)
        staged = lakepaths.stream_staging(self._place.lake, self._row.pk, token)
        with Staging(staged) as staging:
            watched, read = ingesting.counted(_those(rows, fresh, found))
            messages = messages_of(watched, bodies=self._place.bodies, compacted=compacted)
            files = staging.write(messages, MESSAGES)
            kept = logreading.kept_now(self._place.store, fresh, compacted)
            count = sum(check_offsets(files, fresh, kept).values())
            publication = Publication(
                files=files,
                moves=[
                    Move(
                        table=MESSAGES.name,
                        store_id=self._store_id,
                        topic=key[0],
                        queue=key[1],
                        known=known.get(key),
                        next_offset=end,
                    )
                    for key, (_, end) in sorted(fresh.items())
                ],
                rows_expected=count,
                rows_read=read(),
                rows_made=count,
            )
            publishing.publish_batch(
                self._row,
                number,
                publication,
                lake=self._place.lake,
                at=moment(self._clock.wall_ms()),
                token=token,
                duration_ms=self._clock.monotonic_ms() - began_ms,
            )

    def _compacted(self, ranges: Mapping[Key, tuple[int, int]]) -> frozenset[str]:
        """Return which of the topics are compacted now."""
        view = StoreView(self._place.store)
        try:
            return frozenset(topic for topic, _ in ranges if view.is_compacted(topic))
        finally:
            view.close()


def _ranges(rows: "DataFrame") -> dict[Key, tuple[int, int]]:
    """Return which messages a batch has; whether it has all of them is checked with the files."""
    from pyspark.sql import functions as sql

    found = rows.groupBy("topic", "partition").agg(
        sql.min("offset").alias("first"), sql.max("offset").alias("last")
    )
    return {
        (row["topic"], row["partition"]): (row["first"], row["last"] + 1) for row in found.collect()
    }


def _those(
    rows: "DataFrame", fresh: Mapping[Key, tuple[int, int]], found: Mapping[Key, tuple[int, int]]
) -> "DataFrame":
    """Return the messages of a batch that are not published yet."""
    from pyspark.sql import functions as sql

    for (topic, queue), (_, end) in found.items():
        first = fresh.get((topic, queue), (end, end))[0]
        if first > found[topic, queue][0]:
            rows = rows.where(
                (sql.col("topic") != topic)
                | (sql.col("partition") != queue)
                | (sql.col("offset") >= first)
            )
    return rows
