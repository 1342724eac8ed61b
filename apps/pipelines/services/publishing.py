"""Make what a run found visible, all of it in one transaction, or nothing.

Files are moved into place while the run's row is locked, so that two executions of a run never
write to one name; what a crash leaves there no manifest names, and nobody reads it. Knows rows and
paths; neither Spark nor what is in the files.
"""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from django.db import IntegrityError, connection, transaction
from psycopg import sql

from apps.pipelines import lakepaths
from apps.pipelines.catalogue import JOBS
from apps.pipelines.errors import LakeDamaged, NotReconciled, PositionMoved, RunLost
from apps.pipelines.models import (
    RESULTS,
    ArchivedSegment,
    IngestPosition,
    LakeFile,
    PipelineRun,
    PipelineStream,
    RunInput,
    RunState,
    StreamBatch,
)
from apps.pipelines.services import lineage
from apps.pipelines.services.publications import Move, Publication, StagedFile
from apps.pipelines.tables import TABLES

_log = logging.getLogger(__name__)

_TEXT_CHARACTERS_MAX = 255


def publish(run: PipelineRun, publication: Publication, *, lake: Path, at: datetime) -> PipelineRun:
    """Publish what a run has staged, retire what it replaces, and have it done.

    Raises NotReconciled, RunLost where the run is not this worker's any more, PositionMoved where
    others have copied the same messages, LakeDamaged where another run has taken the place of the
    same files, and OSError. Nothing is visible then.
    """
    _reconcile(publication)
    with transaction.atomic():
        owned = _locked(run)
        _move_positions(publication.moves, at, owned)
        _retire(owned, publication.retires, at)
        prefix = lakepaths.of_run(owned.pk)
        files = _add_files(publication.files, lake, prefix, at, run=owned)
        for table, rows in publication.results.items():
            _copy(owned, table, rows)
        RunInput.objects.bulk_create(
            RunInput(
                run=owned,
                table=one.table,
                topic=one.topic,
                queue=one.queue,
                first_offset=one.first_offset,
                end_offset=one.end_offset,
                rows=one.rows,
            )
            for one in publication.inputs
        )
        ArchivedSegment.objects.bulk_create(
            ArchivedSegment(
                store_id=one.store_id,
                first_log_offset=one.first_log_offset,
                end_log_offset=one.end_log_offset,
                rows=one.rows,
                crc32=one.crc32,
                run=owned,
                archived_at=at,
            )
            for one in publication.segments
        )
        _finish(owned, publication, files, at)
    extra = {"run": owned.pk, "job": owned.job, "rows": publication.rows_written}
    _log.info("run_published", extra=extra | {"files": len(publication.files)})
    return owned


def publish_batch(
    stream: PipelineStream,
    number: int,
    publication: Publication,
    *,
    lake: Path,
    at: datetime,
    token: str,
    duration_ms: int,
) -> None:
    """Publish a batch of a stream; what tells whether it was published before are positions.

    `token` keeps the names of two attempts apart. Raises as `publish` does.
    """
    _reconcile(publication)
    with transaction.atomic():
        owned = PipelineStream.objects.select_for_update().get(pk=stream.pk)
        if owned.worker != stream.worker:
            raise RunLost(f"stream {stream.name} is {owned.worker or 'nobody'}'s now")
        _move_positions(publication.moves, at, None)
        prefix = f"part-s{owned.pk}-{number}-{token}"
        _add_files(publication.files, lake, prefix, at, stream=owned, batch=number)
        StreamBatch.objects.update_or_create(
            stream=owned,
            number=number,
            defaults={
                "rows": publication.rows_read,
                "duration_ms": duration_ms,
                "ended_at": at,
            },
        )


def _reconcile(publication: Publication) -> None:
    """Raise NotReconciled unless as many rows came as were expected, and all were written."""
    if publication.rows_read != publication.rows_expected:
        raise NotReconciled(
            f"{publication.rows_read} rows were read, {publication.rows_expected} expected"
        )
    if publication.rows_written != publication.rows_made:
        raise NotReconciled(
            f"{publication.rows_written} rows were written, {publication.rows_made} made"
        )


def _locked(run: PipelineRun) -> PipelineRun:
    """Return the run's row, locked until the transaction ends. Raises RunLost."""
    owned = PipelineRun.objects.select_for_update().get(pk=run.pk)
    if owned.state != RunState.RUNNING or owned.worker != run.worker:
        raise RunLost(f"{owned} is {owned.state}, of worker {owned.worker or 'nobody'}")
    if owned.cancel_requested:
        raise RunLost(f"{owned} was cancelled")
    return owned


def _finish(
    run: PipelineRun, publication: Publication, files: Sequence[LakeFile], at: datetime
) -> None:
    run.state = RunState.DONE
    run.published = True
    run.ended_at = at
    run.lease_ends_at = None
    run.percent = 100.0
    run.error = ""
    run.rows_expected = publication.rows_expected
    run.rows_read = publication.rows_read
    run.rows_written = publication.rows_written
    run.lineage = lineage.complete(run, publication, files, at)
    if run.started_at is not None:
        run.duration_ms = max(round((at - run.started_at).total_seconds() * 1000), 0)
    run.save(
        update_fields=[
            "state", "published", "ended_at", "lease_ends_at", "percent", "error", "rows_expected",
            "rows_read", "rows_written", "lineage", "duration_ms",
        ]
    )  # fmt: skip


def _move_positions(moves: Sequence[Move], at: datetime, run: PipelineRun | None) -> None:
    """Move positions from where they were known to be. Raises PositionMoved."""
    for table, store_id in sorted({(move.table, move.store_id) for move in moves}):
        mine = [move for move in moves if (move.table, move.store_id) == (table, store_id)]
        known = {
            (one.topic, one.queue): one
            for one in IngestPosition.objects.select_for_update()
            .filter(table=table, store_id=store_id, topic__in={move.topic for move in mine})
            .order_by("pk")
        }
        fresh, changed = [], []
        for move in mine:
            found = known.get((move.topic, move.queue))
            if (None if found is None else found.next_offset) != move.known:
                raise PositionMoved(f"{found or 'a new queue'}, and was expected at {move.known}")
            if found is None:
                found = IngestPosition(
                    table=table, store_id=store_id, topic=move.topic, queue=move.queue
                )
                fresh.append(found)
            else:
                changed.append(found)
            found.next_offset, found.moved_at, found.run = move.next_offset, at, run
        try:
            IngestPosition.objects.bulk_create(fresh)
        except IntegrityError as error:
            raise PositionMoved("another run has begun with the same queues") from error
        IngestPosition.objects.bulk_update(
            changed, ["next_offset", "moved_at", "run"], batch_size=1_000
        )


def _retire(run: PipelineRun, retires: Sequence[int], at: datetime) -> None:
    """Take files from readers: those named, and all that the run's forerunner published."""
    changes = {"retired_at": at, "retired_by": run}
    gone = LakeFile.objects.filter(pk__in=retires, retired_at=None).update(**changes)
    if gone != len(retires):
        raise LakeDamaged(f"{len(retires) - gone} of the files that were read are retired already")
    if run.replaces_id is None:
        return
    LakeFile.objects.filter(run=run.replaces_id, retired_at=None).update(**changes)
    for table in JOBS[run.job].writes:
        model = TABLES[table].model
        if model:
            RESULTS[model]._default_manager.filter(run=run.replaces_id).delete()


def _add_files(
    files: Iterable[StagedFile], lake: Path, prefix: str, at: datetime, **owner: Any
) -> list[LakeFile]:
    numbers = count()
    rows, moves = [], []
    for file in files:
        path = lakepaths.final(
            file.table, topic=file.topic, day=file.day, prefix=prefix, number=next(numbers)
        )
        moves.append((file.path, path))
        rows.append(
            LakeFile(
                table=file.table,
                schema_version=TABLES[file.table].version,
                topic=file.topic,
                day=file.day,
                path=path,
                rows=file.rows,
                size_bytes=file.size_bytes,
                first_at=file.first_at,
                last_at=file.last_at,
                added_at=at,
                **owner,
            )
        )
    lakepaths.move(lake, moves)
    return LakeFile.objects.bulk_create(rows, batch_size=1_000)


def _copy(run: PipelineRun, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows of a result by COPY."""
    names = ("run_id", *TABLES[table].names())
    command = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(RESULTS[TABLES[table].model]._meta.db_table),
        sql.SQL(", ").join(map(sql.Identifier, names)),
    )
    with connection.cursor() as cursor, cursor.copy(command) as copy:
        for row in rows:
            copy.write_row((run.pk, *map(_storable, row)))


def _storable(value: Any) -> Any:
    """Return a value as a column takes it: no NUL in texts, and none that is too long.

    A text that is cut ends in a digest of the whole, so that keys stay apart.
    """
    if not isinstance(value, str):
        return value
    value = value.replace("\0", "\ufffd")
    if len(value) <= _TEXT_CHARACTERS_MAX:
        return value
    digest = hashlib.blake2s(value.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{value[: _TEXT_CHARACTERS_MAX - 9]}~{digest}"
