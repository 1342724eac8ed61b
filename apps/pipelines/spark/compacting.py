"""Make few large files of many small ones, and retire what is too old to keep.

The rows stay the same, one by one and in order: what was written is read again beside what it was
made of before it is published. Knows Parquet and the manifest; needs no session, and no memory but
for one group of rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from apps.core.moments import moment
from apps.engine.clock import SystemClock
from apps.pipelines.columns import Table
from apps.pipelines.errors import NotReconciled
from apps.pipelines.models import LakeFile, PipelineRun
from apps.pipelines.place import Place
from apps.pipelines.services import tidying
from apps.pipelines.services.publications import InputRange, Publication, StagedFile
from apps.pipelines.spark import lake
from apps.pipelines.spark.schemas import arrow_schema
from apps.pipelines.spark.staging import Staging, described
from apps.pipelines.tables import TABLES

# Files of runs that may be replaced are left as they are: a rerun retires them by their run.
COMPACTED = ("bronze.messages", "bronze.trace", "archive.messages")
FILE_BYTES = 256 << 20
_LAYERS = ("bronze", "archive", "gold")
_SMALL_BYTES = FILE_BYTES // 2
_ROWS_OF_GROUP = 131_072
_BYTES_OF_GROUP = 64 << 20
_ROWS_OF_BATCH = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Small files of one table, topic and day that become one."""

    table: Table
    topic: str
    day: date
    files: tuple[LakeFile, ...]

    @property
    def rows(self) -> int:
        """Return how many rows the manifest promises."""
        return sum(file.rows for file in self.files)


def compact(
    _spark: Any, run: PipelineRun, place: Place, staging: Staging, tell: Any
) -> Publication:
    """Stage large files for small ones, and name what is too old.

    `bronze_days`, `archive_days` and `gold_days` of the run's parameters say how many days a layer
    is kept; one that is not named is kept as long as the place says. Raises NotReconciled or
    LakeDamaged.
    """
    days = {layer: run.parameters.get(f"{layer}_days") for layer in _LAYERS}
    kept = {
        layer: timedelta(days=int(count)) if count else place.kept for layer, count in days.items()
    }
    old = _too_old(kept, moment(SystemClock().wall_ms()))
    if place.bytes_max:
        old += _too_much(place.bytes_max, old)
    bundles = [bundle for name in COMPACTED for bundle in _bundles(name, old)]
    tell("compacting", sum(bundle.rows for bundle in bundles))
    files, read = [], 0
    for number, bundle in enumerate(bundles):
        parts = lake.TableFiles(table=bundle.table, files=bundle.files, root=place.lake)
        read += lake.check(parts)
        files.append(_joined(bundle, place.lake, staging.path / f"{number}.parquet"))
    rows = sum(bundle.rows for bundle in bundles)
    return Publication(
        files=files,
        inputs=[InputRange(table=bundle.table.name, rows=bundle.rows) for bundle in bundles],
        retires=[*old, *(file.pk for bundle in bundles for file in bundle.files)],
        rows_expected=rows,
        rows_read=read,
        rows_made=rows,
        facets={"tooOld": len(old)},
    )


def published(place: Place, *, at: datetime) -> None:
    """Remove what nobody reads any more."""
    tidying.tidy(place.lake, at=at)


def _too_old(kept: Mapping[str, timedelta | None], at: datetime) -> list[int]:
    """Return the files whose rows are all older than their layer is kept."""
    found: list[int] = []
    for layer, length in kept.items():
        if length is None:
            continue
        found += LakeFile.objects.filter(
            table__startswith=f"{layer}.", retired_at=None, last_at__lt=at - length
        ).values_list("pk", flat=True)
    return found


def _too_much(bytes_max: int, but: Sequence[int]) -> list[int]:
    """Return the oldest files of messages and traces, as many as have to go; results stay."""
    found: list[int] = []
    size_bytes = 0
    files = LakeFile.objects.filter(table__in=COMPACTED, retired_at=None).exclude(pk__in=but)
    for file in files.order_by("-last_at", "-pk").only("pk", "size_bytes"):
        size_bytes += file.size_bytes
        if size_bytes > bytes_max:
            found.append(file.pk)
    return found


def _bundles(table: str, but: Sequence[int]) -> Iterator[Bundle]:
    """Iterate over what is to be joined: neighbours, up to the size of a file."""
    small = (
        LakeFile.objects.filter(
            table=table, retired_at=None, size_bytes__lt=_SMALL_BYTES, day__isnull=False
        )
        .exclude(pk__in=but)
        .order_by("topic", "day", "first_at", "pk")
    )
    for (topic, day), group in groupby(small, key=lambda file: (file.topic, file.day)):
        for files in _packed(group):
            if len(files) > 1:
                yield Bundle(table=TABLES[table], topic=topic, day=day, files=tuple(files))


def _packed(files: Iterable[LakeFile]) -> Iterator[list[LakeFile]]:
    pack: list[LakeFile] = []
    for file in files:
        if pack and sum(one.size_bytes for one in pack) + file.size_bytes > FILE_BYTES:
            yield pack
            pack = []
        pack.append(file)
    yield pack


def _joined(bundle: Bundle, root: Path, target: Path) -> StagedFile:
    """Write one file of several, and compare it with them."""
    sources = [root / file.path for file in bundle.files]
    schema = _schema(bundle.table)
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for group in _groups(_rows(sources, schema)):
            writer.write_table(group)
    _compare(_rows(sources, schema), _rows([target], schema), target)
    return described(target, bundle.table, topic=bundle.topic, day=bundle.day)


def _schema(table: Table) -> pa.Schema:
    """Return the columns of a table, each of which an older file may lack."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema(table)])


def _rows(paths: Iterable[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """Iterate over the rows of files with all columns of a schema, null where a file has none."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS_OF_BATCH):
                columns = [
                    batch.column(field.name).cast(field.type)
                    if field.name in batch.schema.names
                    else pa.nulls(batch.num_rows, field.type)
                    for field in schema
                ]
                yield pa.table(columns, schema=schema)


def _groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Join parts to groups of rows that are worth a seek."""
    group: list[pa.Table] = []
    rows = size_bytes = 0
    for part in parts:
        group.append(part)
        rows += part.num_rows
        size_bytes += part.nbytes
        if rows >= _ROWS_OF_GROUP or size_bytes >= _BYTES_OF_GROUP:
            yield pa.concat_tables(group)
            group, rows, size_bytes = [], 0, 0
    if group:
        yield pa.concat_tables(group)


def _compare(expected: Iterator[pa.Table], found: Iterator[pa.Table], path: Path) -> None:
    """Raise NotReconciled unless both have the same rows in the same order."""
    one, other = next(expected, None), next(found, None)
    while one is not None and other is not None:
        count = min(one.num_rows, other.num_rows)
        if not one.slice(0, count).equals(other.slice(0, count)):
            raise NotReconciled(f"{path.name} has other rows than what it was made of")
        one = one.slice(count) if count < one.num_rows else next(expected, None)
        other = other.slice(count) if count < other.num_rows else next(found, None)
    if one is not None or other is not None:
        raise NotReconciled(f"{path.name} has not as many rows as what it was made of")
