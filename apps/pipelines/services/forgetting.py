"""Delete rows of runs nobody needs, and what they found out. Knows rows; no file, no Spark.

What a file of the lake was made of stays known as long as the file: its run with its ranges, and
the files and runs that it was compacted from.
"""

from datetime import date, datetime, timedelta

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet, Value
from django.db.models.functions import Coalesce

from apps.clockwork.deleting import delete_some
from apps.clockwork.steps import Step
from apps.core.moments import moment
from apps.pipelines.models import (
    RESULTS,
    ArchivedSegment,
    IngestPosition,
    LakeFile,
    PipelineRun,
    StreamBatch,
)

ROWS_PER_STEP = 5_000
# One run may have found a million rows.
RESULTS_PER_STEP = 10

_NO_DAY = Value(date.min)


def forget(*, now_ms: int, keep: timedelta, rows_max: int = ROWS_PER_STEP) -> Step:
    """Delete what ended longer ago than `keep`, and say whether more is left.

    Rows of results go first, whatever became of their run; then batches of streams, rows of files
    that were deleted, and the runs that no file, position or archived range is of.
    """
    before = moment(now_ms) - keep
    emptied = _empty_results(before, at=moment(now_ms))
    batches = delete_some(
        StreamBatch.objects.filter(ended_at__lt=before).order_by("pk"), rows_max=rows_max
    )
    files = delete_some(_forgettable_files(before).order_by("pk"), rows_max=rows_max)
    runs = delete_some(_forgettable_runs(before).order_by("pk"), rows_max=rows_max)
    more = emptied >= RESULTS_PER_STEP or max(batches, files, runs) >= rows_max
    return Step(done=emptied + batches + files + runs, more=more)


def _empty_results(before: datetime, *, at: datetime) -> int:
    """Delete the results of some runs, and write down that they are gone: pages must not say 0."""
    with transaction.atomic():
        old = PipelineRun.objects.filter(
            ended_at__lt=before, published=True, results_deleted_at=None
        ).order_by("pk")
        found = list(
            old.select_for_update(skip_locked=True, of=("self",)).values_list("pk", flat=True)[
                :RESULTS_PER_STEP
            ]
        )
        for model in RESULTS.values():
            model._default_manager.filter(run__in=found).delete()
        PipelineRun.objects.filter(pk__in=found).update(results_deleted_at=at)
    return len(found)


def _forgettable_files(before: datetime) -> "QuerySet[LakeFile]":
    """Return the rows of files deleted long ago from which nothing came that has a row.

    What came of a file are the files that its rows were copied to: of the run that retired it, and
    of the same table, topic and day.
    """
    came_of_it = LakeFile.objects.alias(of_day=Coalesce("day", _NO_DAY)).filter(
        run=OuterRef("retired_by"),
        table=OuterRef("table"),
        topic=OuterRef("topic"),
        of_day=OuterRef("of_day"),
    )
    old = LakeFile.objects.alias(of_day=Coalesce(F("day"), _NO_DAY)).filter(deleted_at__lt=before)
    return old.exclude(Exists(came_of_it))


def _forgettable_runs(before: datetime) -> "QuerySet[PipelineRun]":
    found = PipelineRun.objects.filter(ended_at__lt=before).exclude(
        published=True, results_deleted_at=None
    )
    for referring, name in (
        (LakeFile, "run"),
        (LakeFile, "retired_by"),
        (IngestPosition, "run"),
        (ArchivedSegment, "run"),
    ):
        found = found.exclude(Exists(referring._default_manager.filter(**{name: OuterRef("pk")})))
    return found
