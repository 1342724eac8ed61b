"""Tables of the lake as DataFrames. Files are named by the manifest, never found by listing.

Knows the manifest and Spark's reader. Files of an older schema have no column that came later: it
is null there.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from apps.pipelines.columns import Table
from apps.pipelines.errors import LakeDamaged
from apps.pipelines.models import LakeFile
from apps.pipelines.selectors import lake as manifest
from apps.pipelines.spark.jobs import Window
from apps.pipelines.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGES = "bronze.messages"
ARCHIVE = "archive.messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """The files that a read of a table is about, settled once: `rows` is what they promise."""

    table: Table
    files: tuple[LakeFile, ...]
    root: Path

    @property
    def rows(self) -> int:
        """Return how many rows the manifest promises."""
        return sum(file.rows for file in self.files)


def resolve(
    root: Path, table: str, window: Window | None = None, *, topics: Collection[str] = ()
) -> TableFiles:
    """Return which files have a table's rows about a time."""
    start, end = (None, None) if window is None else (window.start, window.end)
    found = manifest.files_of(table, start=start, end=end, topics=topics)
    return TableFiles(table=TABLES[table], files=tuple(found), root=root)


def check(resolved: TableFiles) -> int:
    """Return how many rows the files themselves have. Raises LakeDamaged."""
    rows = 0
    for file in resolved.files:
        path = resolved.root / file.path
        try:
            metadata = pq.read_metadata(path)
            size_bytes = path.stat().st_size
        except (OSError, ValueError) as error:
            raise LakeDamaged(f"{file.path} cannot be read: {error}") from error
        if (metadata.num_rows, size_bytes) != (file.rows, file.size_bytes):
            raise LakeDamaged(
                f"{file.path} has {metadata.num_rows} rows in {size_bytes} bytes, and was published"
                f" with {file.rows} in {file.size_bytes}"
            )
        rows += metadata.num_rows
    return rows


def read(
    spark: "SparkSession",
    root: Path,
    table: str,
    window: Window | None = None,
    *,
    topics: Collection[str] = (),
) -> "DataFrame":
    """Return the rows of a table that are about a time; without a window all of them.

    `bronze.messages` has also what is only in the archive. A row is about a time where it begins
    before the window's end and ends at its start or later.
    """
    frame = frame_of(spark, resolve(root, table, window, topics=topics), window)
    if table != MESSAGES:
        return frame
    return with_archive(frame, spark, resolve(root, ARCHIVE, window, topics=topics), window)


def with_archive(
    frame: "DataFrame", spark: "SparkSession", archive: TableFiles, window: Window | None
) -> "DataFrame":
    """Return messages with those that the archive has, each once."""
    if not archive.files:
        return frame
    # A place in the log and when it was written name one message, whichever store it was in.
    return frame.unionByName(frame_of(spark, archive, window)).dropDuplicates(
        ["topic", "queue", "queue_offset", "log_offset", "stored_at"]
    )


def frame_of(
    spark: "SparkSession", resolved: TableFiles, window: Window | None = None
) -> "DataFrame":
    """Return the rows of settled files that are about a time."""
    from pyspark.sql import functions as sql

    table = resolved.table
    paths = [str(path) for path in manifest.paths_of(resolved.files, resolved.root)]
    if not paths:
        return spark.createDataFrame([], table.ddl().replace(" NOT NULL", ""))
    # Names of directories are not to become columns: every column is in the files.
    frame = spark.read.schema(table.ddl()).option("recursiveFileLookup", "true").parquet(*paths)
    if window is None or not table.begins:
        return frame
    return frame.where(
        (sql.col(table.begins) < sql.lit(_text(window.end)).cast("timestamp"))
        & (sql.col(table.ends) >= sql.lit(_text(window.start)).cast("timestamp"))
    )


def _text(at: datetime) -> str:
    """Return a moment with its zone, so that no setting of the session changes it."""
    return at.isoformat()
