"""Copy segments of the log to the archive before retention takes them.

A lease holds the log from the first segment on that is not in the archive; it moves when a segment
is published, and gives way to a disk that is too full: what was taken then is told as lost. Knows
segments and the lease; not how retention decides.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.db.models import Max

from apps.engine.clock import SystemClock
from apps.engine.offline.leasing import ReaderLease
from apps.engine.offline.ranges import crc32_of, whole_segments, within
from apps.engine.offline.view import StoreView
from apps.pipelines.models import ArchivedSegment, PipelineRun
from apps.pipelines.place import Place
from apps.pipelines.services.publications import (
    InputRange,
    Publication,
    SegmentCopy,
    StagedFile,
)
from apps.pipelines.spark import logreading
from apps.pipelines.spark.holding import PLAN_LEASE_MS
from apps.pipelines.spark.ingesting import counted
from apps.pipelines.spark.logreading import messages_of
from apps.pipelines.spark.staging import Staging, check_offsets
from apps.pipelines.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

ARCHIVE = TABLES["archive.messages"]
LEASE = "archive"
# As long as a lease may be: runs renew it, and an archive nobody runs any more lets go in a day.
_LEASE_MS = 24 * 3_600_000
_SEGMENTS_A_RUN = 8


def archive(
    spark: "SparkSession", run: PipelineRun, place: Place, staging: Staging, tell: Any
) -> Publication:
    """Stage the messages of the next full segments, at most `segments` of the run's parameters.

    Raises NotReconciled, EngineError, and what the source raises.
    """
    view = StoreView(place.store)
    try:
        begin = _next(view)
        _lease(place.store).take(begin)
        # Retention may have come first: what is leased begins where the log does now.
        view.refresh()
        start = view.store.segments.start
        lost = [begin, start] if begin < start else []
        if lost:
            extra = {"first_log_offset": begin, "end_log_offset": start}
            _log.warning("archive_lost", extra=extra)
        most = int(run.parameters.get("segments", _SEGMENTS_A_RUN))
        wanted = [span for span in whole_segments(view) if span[0] >= begin][:most]
        topics = view.matching(".*")
        # What compaction has replaced is to be gone, and what it keeps stays beside the log.
        passed_over = [topic for topic in topics if view.is_compacted(topic)]
        extents = logreading.look(view, set(topics).difference(passed_over))
        files: list[StagedFile] = []
        inputs: list[InputRange] = []
        copies: list[SegmentCopy] = []
        read = 0
        for low, high in wanted:
            ranges = {
                key: within(view, extent, low, high) for key, extent in extents.queues.items()
            }
            ranges = {key: span for key, span in ranges.items() if span[0] < span[1]}
            rows = logreading.rows_of(ranges)
            tell(f"archiving the log from {low}", rows)
            if rows:
                copied, count = _copied(spark, place, staging, ranges, (low, high))
                files += copied
                read += count
            copies.append(
                SegmentCopy(
                    store_id=extents.store_id,
                    first_log_offset=low,
                    end_log_offset=high,
                    rows=rows,
                    crc32=crc32_of(view, low, high),
                )
            )
            inputs += [
                InputRange(
                    table=ARCHIVE.name,
                    topic=topic,
                    queue=queue,
                    first_offset=first,
                    end_offset=end,
                    rows=end - first,
                )
                for (topic, queue), (first, end) in sorted(ranges.items())
            ]
    finally:
        view.close()
    expected = sum(one.rows for one in inputs)
    return Publication(
        files=files,
        inputs=inputs,
        segments=copies,
        rows_expected=expected,
        rows_read=read,
        rows_made=expected,
        facets={
            "store": extents.store_id,
            "lost": lost,
            "passedOver": passed_over,
            "segments": [[one.first_log_offset, one.end_log_offset, one.crc32] for one in copies],
        },
    )


def published(place: Place) -> None:
    """Move the lease behind what is in the archive now, so that retention may have it."""
    view = StoreView(place.store)
    try:
        _lease(place.store).take(_next(view))
    finally:
        view.close()


def _copied(
    spark: "SparkSession",
    place: Place,
    staging: Staging,
    ranges: logreading.Ranges,
    span: tuple[int, int],
) -> tuple[list[StagedFile], int]:
    """Return the files of one segment, and how many rows were read for them."""
    rows = (
        spark.read.format("mqweb")
        .schema(logreading.SOURCE_COLUMNS)
        .option("path", str(place.store))
        .option("subscribe", ",".join(sorted({topic for topic, _ in ranges})))
        .option("commitLogRange", "{}-{}".format(*span))
        .option("segmentLeaseMs", str(PLAN_LEASE_MS))
        .load()
    )
    watched, read = counted(rows)
    files = staging.write(messages_of(watched, bodies=place.bodies), ARCHIVE)
    check_offsets(files, ranges)
    return files, read()


def _next(view: StoreView) -> int:
    """Return the first log offset that is not in the archive."""
    store_id = view.store.identity.store_id.hex()
    found = ArchivedSegment.objects.filter(store_id=store_id).aggregate(end=Max("end_log_offset"))
    return int(found["end"] or view.store.segments.start)


def _lease(store: Path) -> ReaderLease:
    return ReaderLease(store, LEASE, lease_ms=_LEASE_MS, clock=SystemClock(), yields=True)
