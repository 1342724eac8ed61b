"""One run from its inputs to what it publishes.

Inputs are settled once; the job's function makes outputs of them; outputs are staged, checked and
published together. Knows jobs by their names; what a copying job does is in its own module.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from django.db import close_old_connections, connection

from apps.core.moments import moment
from apps.engine.clock import Clock, SystemClock
from apps.pipelines.catalogue import JOBS, Job
from apps.pipelines.errors import CannotRun, TooManyRows
from apps.pipelines.models import PipelineRun
from apps.pipelines.place import Place
from apps.pipelines.services import publishing
from apps.pipelines.services.publications import InputRange, Publication, StagedFile
from apps.pipelines.spark import archiving, compacting, ingesting, lake
from apps.pipelines.spark.inputs import database_rows, frame_of
from apps.pipelines.spark.jobs import Window, function_of
from apps.pipelines.spark.schemas import checked
from apps.pipelines.spark.staging import Staging
from apps.pipelines.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tell = Callable[[str, int | None], None]
"""Is told the name of a stage, and how many rows are expected in it where that is known."""

Prepare = Callable[["SparkSession", PipelineRun, Place, Staging, Tell], Publication]

ROWS_MAX = 1_000_000

# Jobs that copy: they know by themselves what is new, and what they do is not done again.
_COPYING: Mapping[str, Prepare] = {
    "ingest": ingesting.ingest,
    "archive": archiving.archive,
    "compact": compacting.compact,
}


def execute(
    spark: "SparkSession",
    run: PipelineRun,
    place: Place,
    tell: Tell,
    *,
    clock: Clock | None = None,
    rows_max: int = ROWS_MAX,
) -> None:
    """Do what a run asks for and publish it: afterwards it is DONE, or this raises.

    `run` is RUNNING, and its worker the caller. Raises PipelineError, EngineError, OSError, or what
    Spark raises; nothing is published then.
    """
    clock = clock or SystemClock()
    with Staging.of_run(place.lake, run.pk) as staging:
        if run.job in _COPYING:
            if run.replaces_id is not None:
                raise CannotRun(f"{run.job} copies what is new, and replaces nothing")
            publication = _COPYING[run.job](spark, run, place, staging, tell)
        else:
            publication = _analysed(spark, run, place, staging, tell, rows_max)
        tell("publishing", publication.rows_written)
        if not connection.in_atomic_block:
            # It was idle while Spark worked, and may have been closed from the other side.
            close_old_connections()
        publishing.publish(run, publication, lake=place.lake, at=moment(clock.wall_ms()))
    if run.job == "archive":
        archiving.published(place)
    if run.job == "compact":
        compacting.published(place, at=moment(clock.wall_ms()))


def _analysed(
    spark: "SparkSession",
    run: PipelineRun,
    place: Place,
    staging: Staging,
    tell: Tell,
    rows_max: int,
) -> Publication:
    """Stage what a job's function makes of tables."""
    job = JOBS[run.job]
    window = Window(start=run.window_start, end=run.window_end)
    inputs, ranges, rows = _inputs(spark, run, job, place)
    tell("reading inputs", rows)
    files: list[StagedFile] = []
    results: dict[str, list[tuple[object, ...]]] = {}
    made = 0
    try:
        outputs = function_of(run.job)(inputs, window)
        for name in job.writes:
            tell(f"working out {name}", rows)
            found = checked(_collected(outputs[name], name, rows_max), TABLES[name])
            made += found.num_rows
            files += staging.write_rows(
                found,
                TABLES[name],
                first_at=window.start,
                last_at=window.end - timedelta.resolution,
            )
            if TABLES[name].model:
                results[name] = [tuple(row.values()) for row in found.to_pylist()]
    finally:
        # A worker's session goes on.
        spark.catalog.clearCache()
    return Publication(
        files=files,
        results=results,
        inputs=ranges,
        rows_expected=rows,
        rows_read=sum(one.rows for one in ranges),
        rows_made=made,
    )


def _inputs(
    spark: "SparkSession", run: PipelineRun, job: Job, place: Place
) -> tuple[dict[str, "DataFrame"], list[InputRange], int]:
    """Return a job's tables, what they are of, and how many rows the manifest promises."""
    window = Window(start=run.window_start - timedelta(seconds=job.lookback_s), end=run.window_end)
    frames: dict[str, DataFrame] = {}
    ranges: list[InputRange] = []
    promised = 0
    for name in job.reads:
        if not TABLES[name].in_lake:
            found = database_rows(name, window)
            frames[name] = frame_of(spark, name, found)
            if found.num_rows:
                promised += found.num_rows
                ranges.append(InputRange(table=name, rows=found.num_rows))
            continue
        parts = [lake.resolve(place.lake, name, window, topics=run.topics)]
        frames[name] = lake.frame_of(spark, parts[0], window)
        if name == lake.MESSAGES:
            parts.append(lake.resolve(place.lake, lake.ARCHIVE, window, topics=run.topics))
            frames[name] = lake.with_archive(frames[name], spark, parts[1], window)
        for part in parts:
            if part.files:
                promised += part.rows
                ranges.append(InputRange(table=part.table.name, rows=lake.check(part)))
    return frames, ranges, promised


def _collected(frame: "DataFrame", name: str, rows_max: int) -> pa.Table:
    """Return the rows of a result. Raises TooManyRows."""
    found = frame.select(*TABLES[name].names()).limit(rows_max + 1).toArrow()
    if found.num_rows > rows_max:
        raise TooManyRows(
            f"{name} has more than {rows_max} rows: take a shorter window or fewer topics"
        )
    return found
