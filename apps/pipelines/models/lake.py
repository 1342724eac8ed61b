"""The lake's manifest: which files are its tables, and how far the log has been copied.

A file that has no active row here is nobody's: a run that was cut off left it, or it was replaced.
"""

from django.db import models
from django.db.models import F, Q

from apps.groups.models import fields
from apps.pipelines.models.runs import PipelineRun
from apps.pipelines.models.streams import PipelineStream


class LakeFile(models.Model):
    """One Parquet file. Readers use those without `retired_at`; `path` is relative to the lake.

    It is of a run, or of a batch of a stream. `first_at` and `last_at` say what its rows are about:
    none is of before or after.
    """

    table = models.CharField(max_length=40)
    schema_version = models.PositiveSmallIntegerField()
    topic = models.CharField(max_length=fields.TOPIC_CHARACTERS_MAX, db_collation="C", blank=True)
    day = models.DateField(null=True)
    path = models.CharField(max_length=1_000, unique=True)
    rows = models.PositiveBigIntegerField()
    size_bytes = models.PositiveBigIntegerField()
    first_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField(null=True)
    run = models.ForeignKey(PipelineRun, on_delete=models.PROTECT, null=True, related_name="files")
    stream = models.ForeignKey(
        PipelineStream, on_delete=models.PROTECT, null=True, related_name="files"
    )
    batch = models.BigIntegerField(null=True)
    added_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True)
    retired_by = models.ForeignKey(
        PipelineRun, on_delete=models.PROTECT, null=True, related_name="retired_files"
    )
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(run__isnull=False, stream=None, batch=None)
                | Q(run=None, stream__isnull=False, batch__isnull=False),
                name="lake_file_of_run_or_batch",
            ),
        ]
        indexes = [
            models.Index(
                fields=["table", "day", "topic"],
                condition=Q(retired_at=None),
                name="lake_file_active",
            ),
            models.Index(
                fields=["retired_at"],
                condition=Q(retired_at__isnull=False, deleted_at=None),
                name="lake_file_to_delete",
            ),
        ]

    def __str__(self) -> str:
        """Return the path."""
        return self.path


class IngestPosition(models.Model):
    """Up to where a queue has been copied to a table. Moves in the transaction that adds files.

    `run` moved it last; null where a stream did.
    """

    table = models.CharField(max_length=40)
    store_id = models.CharField(max_length=32)
    topic = fields.topic()
    queue = models.PositiveIntegerField()
    next_offset = models.PositiveBigIntegerField()
    moved_at = models.DateTimeField()
    run = models.ForeignKey(PipelineRun, on_delete=models.PROTECT, null=True)

    class Meta:
        ordering = ["table", "topic", "queue"]
        constraints = [
            models.UniqueConstraint(
                fields=["table", "store_id", "topic", "queue"], name="position_once_a_queue"
            ),
        ]

    def __str__(self) -> str:
        """Return the queue and its next offset."""
        return f"{self.table}: {self.topic}/{self.queue} at {self.next_offset}"


class ArchivedSegment(models.Model):
    """A range of the log that is in the archive, its end not included."""

    store_id = models.CharField(max_length=32)
    first_log_offset = models.PositiveBigIntegerField()
    end_log_offset = models.PositiveBigIntegerField()
    rows = models.PositiveBigIntegerField()
    crc32 = models.PositiveBigIntegerField()
    run = models.ForeignKey(PipelineRun, on_delete=models.PROTECT, related_name="segments")
    archived_at = models.DateTimeField()

    class Meta:
        ordering = ["store_id", "first_log_offset"]
        constraints = [
            models.UniqueConstraint(
                fields=["store_id", "first_log_offset"], name="segment_archived_once"
            ),
            models.CheckConstraint(
                condition=Q(end_log_offset__gt=F("first_log_offset")), name="segment_has_bytes"
            ),
        ]

    def __str__(self) -> str:
        """Return the range."""
        return f"{self.first_log_offset} to {self.end_log_offset}"
