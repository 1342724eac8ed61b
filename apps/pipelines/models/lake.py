"""The lake's manifest: which files are its tables, and how far the log has been copied.

A file that has no active row here is nobody's: a run that was cut off left it, or it was replaced.
"""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.groups.models import fields
from apps.pipelines.models.runs import PipelineRun
from apps.pipelines.models.streams import PipelineStream


class LakeFile(models.Model):
    """One Parquet file. Readers use those without `retired_at`; `path` is relative to the lake.

    It is of a run, or of a batch of a stream. `first_at` and `last_at` say what its rows are about:
    none is of before or after.
    """

    table = models.CharField(_("table"), max_length=40)
    schema_version = models.PositiveSmallIntegerField(_("version of the columns"))
    topic = models.CharField(
        _("topic"), max_length=fields.TOPIC_CHARACTERS_MAX, db_collation="C", blank=True
    )
    day = models.DateField(_("day"), null=True)
    path = models.CharField(_("path"), max_length=1_000, unique=True)
    rows = models.PositiveBigIntegerField(_("rows"))
    size_bytes = models.PositiveBigIntegerField(_("size (bytes)"))
    first_at = models.DateTimeField(_("first moment"), null=True)
    last_at = models.DateTimeField(_("last moment"), null=True)
    run = models.ForeignKey(
        PipelineRun,
        verbose_name=_("run"),
        on_delete=models.PROTECT,
        null=True,
        related_name="files",
    )
    stream = models.ForeignKey(
        PipelineStream,
        verbose_name=_("stream"),
        on_delete=models.PROTECT,
        null=True,
        related_name="files",
    )
    batch = models.BigIntegerField(_("batch"), null=True)
    added_at = models.DateTimeField(_("added at"))
    retired_at = models.DateTimeField(_("retired at"), null=True)
    retired_by = models.ForeignKey(
        PipelineRun,
        verbose_name=_("retired by run"),
        on_delete=models.PROTECT,
        null=True,
        related_name="retired_files",
    )
    deleted_at = models.DateTimeField(_("deleted at"), null=True)

    class Meta:
        ordering = ["id"]
        verbose_name = _("file of the lake")
        verbose_name_plural = _("files of the lake")
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

    table = models.CharField(_("table"), max_length=40)
    store_id = models.CharField(_("store id"), max_length=32)
    topic = fields.topic(_("topic"))
    queue = models.PositiveIntegerField(_("queue"))
    next_offset = models.PositiveBigIntegerField(_("next offset"))
    moved_at = models.DateTimeField(_("moved at"))
    run = models.ForeignKey(PipelineRun, verbose_name=_("run"), on_delete=models.PROTECT, null=True)

    class Meta:
        ordering = ["table", "topic", "queue"]
        verbose_name = _("ingest position")
        verbose_name_plural = _("ingest positions")
        constraints = [
            models.UniqueConstraint(
                fields=["table", "store_id", "topic", "queue"], name="position_once_a_queue"
            ),
        ]

    def __str__(self) -> str:
        """Return the queue and its next offset."""
        return gettext("%(table)s: %(queue)s at %(offset)s") % {
            "table": self.table,
            "queue": f"{self.topic}/{self.queue}",
            "offset": self.next_offset,
        }


class ArchivedSegment(models.Model):
    """A range of the log that is in the archive, its end not included."""

    store_id = models.CharField(_("store id"), max_length=32)
    first_log_offset = models.PositiveBigIntegerField(_("first log offset"))
    end_log_offset = models.PositiveBigIntegerField(_("log offset of the end"))
    rows = models.PositiveBigIntegerField(_("rows"))
    crc32 = models.PositiveBigIntegerField(_("CRC-32"))
    run = models.ForeignKey(
        PipelineRun, verbose_name=_("run"), on_delete=models.PROTECT, related_name="segments"
    )
    archived_at = models.DateTimeField(_("archived at"))

    class Meta:
        ordering = ["store_id", "first_log_offset"]
        verbose_name = _("archived segment")
        verbose_name_plural = _("archived segments")
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
        return gettext("%(first)s to %(end)s") % {
            "first": self.first_log_offset,
            "end": self.end_log_offset,
        }
