"""Files of a run before they are published: written where nobody reads, then described.

Knows Spark's writer and Parquet; no manifest. What lies in the directory of an attempt was put
there by that attempt alone, so here, and only here, a directory is listed.
"""

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from apps.pipelines import lakepaths
from apps.pipelines.columns import Table
from apps.pipelines.errors import NotReconciled
from apps.pipelines.services.publications import StagedFile
from apps.pipelines.spark.logreading import Kept, Key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TOPIC, _DAY = "staged_topic", "staged_day"
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # Spark's own old form of times has no statistics, and few others read it.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Anybody may send a property twice.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
}

Offsets = dict[Key, NDArray[np.int64]]


class Staging:
    """The directory of one attempt; what was not published of it is removed at the end."""

    def __init__(self, path: Path) -> None:
        """Bind to a directory that is not there yet."""
        self.path = path
        self._written = 0

    @classmethod
    def of_run(cls, lake: Path, run: int) -> Self:
        """Return the directory of a new attempt of a run."""
        return cls(lakepaths.staging(lake, run, secrets.token_hex(4)))

    def __enter__(self) -> Self:
        """Make the directory."""
        self.path.mkdir(parents=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove what is left."""
        shutil.rmtree(self.path, ignore_errors=True)

    def write(self, frame: "DataFrame", table: Table) -> list[StagedFile]:
        """Write rows by topic and day, in one action of Spark, and return the files.

        `table` is one whose rows say when they are from.
        """
        from pyspark.sql import functions as sql

        for name, value in SETTINGS.items():
            frame.sparkSession.conf.set(name, value)
        target = self._next()
        (
            frame.select(*table.names())
            # The name itself could be too long for a directory once it is quoted.
            .withColumn(_TOPIC, sql.md5(sql.col("topic").cast("binary")))
            .withColumn(_DAY, sql.to_date(table.begins))
            .write.option("compression", "zstd")
            .partitionBy(_TOPIC, _DAY)
            .parquet(str(target))
        )
        return [_described(path, table) for path in sorted(target.rglob("*.parquet"))]

    def write_rows(
        self, rows: pa.Table, table: Table, *, first_at: datetime, last_at: datetime
    ) -> list[StagedFile]:
        """Write rows that are about a time as a whole to one file; none for no rows."""
        if not rows.num_rows:
            return []
        path = self._next().with_suffix(lakepaths.SUFFIX)
        pq.write_table(rows, path, compression="zstd")
        return [
            StagedFile(
                table=table.name,
                topic="",
                day=first_at.date(),
                path=path,
                rows=pq.read_metadata(path).num_rows,
                size_bytes=path.stat().st_size,
                first_at=first_at,
                last_at=last_at,
            )
        ]

    def _next(self) -> Path:
        self._written += 1
        return self.path / str(self._written)


def described(path: Path, table: Table, *, topic: str, day: date) -> StagedFile:
    """Return what a file says of itself."""
    metadata = pq.read_metadata(path)
    return StagedFile(
        table=table.name,
        topic=topic,
        day=day,
        path=path,
        rows=metadata.num_rows,
        size_bytes=path.stat().st_size,
        first_at=min(_bounds(metadata, table.begins, "min"), default=None),
        last_at=max(_bounds(metadata, table.ends, "max"), default=None),
    )


def _described(path: Path, table: Table) -> StagedFile:
    """Return what a file of Spark says of itself: its rows are of one topic and one day."""
    with pq.ParquetFile(path) as file:
        first = next(file.iter_batches(batch_size=1, columns=["topic"]))
    day = date.fromisoformat(path.parent.name.removeprefix(f"{_DAY}="))
    return described(path, table, topic=first.column("topic")[0].as_py(), day=day)


def _bounds(metadata: pq.FileMetaData, column: str, which: str) -> Iterator[Any]:
    names = [metadata.schema.column(number).name for number in range(metadata.num_columns)]
    at = names.index(column)
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(at).statistics
        if statistics is not None and statistics.has_min_max:
            yield getattr(statistics, which)


def queue_offsets(files: Sequence[StagedFile]) -> Offsets:
    """Return the queue offsets that files of messages have, sorted, by topic and queue."""
    parts: dict[Key, list[NDArray[np.int64]]] = {}
    for file in files:
        rows = pq.read_table(file.path, columns=["queue", "queue_offset"], partitioning=None)
        queues = rows.column("queue").to_numpy()
        offsets = rows.column("queue_offset").to_numpy()
        for queue in np.unique(queues).tolist():
            parts.setdefault((file.topic, queue), []).append(offsets[queues == queue])
    return {key: np.sort(np.concatenate(found)) for key, found in parts.items()}


def check_offsets(
    files: Sequence[StagedFile],
    ranges: Mapping[Key, tuple[int, int]],
    kept: Mapping[Key, Kept] | None = None,
) -> dict[Key, int]:
    """Return how many messages of each range files have: each once, and no other.

    Of queues that are named by `kept` some may have been replaced, but none of those. Raises
    NotReconciled.
    """
    found = queue_offsets(files)
    kept = kept or {}
    for key in sorted({*found, *ranges}):
        first, end = ranges.get(key, (0, 0))
        offsets = found.setdefault(key, np.empty(0, dtype=np.int64))
        if key in kept:
            is_whole = (
                bool(np.all(np.diff(offsets) > 0))
                and bool(np.all((offsets >= first) & (offsets < end)))
                and not kept[key].missing(first, end, offsets)
            )
        else:
            is_whole = np.array_equal(offsets, np.arange(first, end))
        if not is_whole:
            what = "that were not replaced" if key in kept else "each"
            raise NotReconciled(
                f"{key[0]}/{key[1]}: offsets {first} to {end} were expected once, {what}, and "
                f"there are {len(offsets)}, {len(np.unique(offsets))} of them different"
            )
    return {key: len(offsets) for key, offsets in found.items()}
