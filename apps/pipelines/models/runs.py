"""Runs of jobs, and which messages went into each. Rows and constraints only."""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.groups.models import fields

ERROR_CHARACTERS_MAX = 4_000


class RunState(models.TextChoices):
    """Where a run is."""

    QUEUED = "queued", pgettext_lazy("run", "queued")
    RUNNING = "running", pgettext_lazy("run", "running")
    DONE = "done", pgettext_lazy("run", "done")
    FAILED = "failed", pgettext_lazy("run", "failed")
    CANCELLED = "cancelled", pgettext_lazy("run", "cancelled")
    INTERRUPTED = "interrupted", _("interrupted: its worker was killed or lost the database")


ACTIVE = (RunState.QUEUED, RunState.RUNNING)


class Trigger(models.TextChoices):
    """What asked for a run."""

    SCHEDULE = "schedule", pgettext_lazy("who asked for a run", "schedule")
    PERSON = "person", pgettext_lazy("who asked for a run", "person")
    COMMAND = "command", pgettext_lazy("who asked for a run", "command")
    BACKFILL = "backfill", pgettext_lazy("who asked for a run", "backfill")


class PipelineRun(models.Model):
    """One run of a job over a window of time, its end not included.

    `key` is a digest of job, window, topics, parameters and code version: while a run of it is
    active or done, asking again gives that one, unless it is asked to replace it. `percent` and
    `stage_rows_read` are of the stage `stage`. Costs are of the driver and all its processes.
    `published` is set in the transaction that made the run's files and rows visible. After
    `results_deleted_at` its rows of results are gone for their age, and it is here for what came of
    it in the lake.
    """

    job = models.CharField(_("job"), max_length=40)
    window_start = models.DateTimeField(_("start of the window"))
    window_end = models.DateTimeField(_("end of the window"))
    topics = models.JSONField(_("topics"), default=list)
    parameters = models.JSONField(_("parameters"), default=dict)
    key = models.CharField(_("key"), max_length=64)
    code_version = models.CharField(_("version of the code"), max_length=40)
    trigger = models.CharField(_("trigger"), max_length=10, choices=Trigger)
    requested_by = models.CharField(_("asked for by"), max_length=255)
    requested_at = models.DateTimeField(_("asked for at"))
    replaces = models.ForeignKey(
        "self", verbose_name=_("in place of"), on_delete=models.SET_NULL, null=True
    )

    state = models.CharField(_("state"), max_length=12, choices=RunState, default=RunState.QUEUED)
    worker = models.CharField(_("worker"), max_length=255, blank=True)
    lease_ends_at = models.DateTimeField(_("lease ends at"), null=True)
    started_at = models.DateTimeField(_("started at"), null=True)
    ended_at = models.DateTimeField(_("ended at"), null=True)
    cancel_requested = models.BooleanField(_("cancellation asked for"), default=False)
    cancelled_by = models.CharField(_("cancelled by"), max_length=255, blank=True)
    published = models.BooleanField(_("published"), default=False)
    results_deleted_at = models.DateTimeField(_("results deleted at"), null=True)

    stage = models.CharField(_("stage"), max_length=100, blank=True)
    percent = models.FloatField(_("percent done"), null=True)
    stage_rows_read = models.PositiveBigIntegerField(_("rows read by the stage"), null=True)
    rows_expected = models.PositiveBigIntegerField(_("rows expected"), null=True)
    rows_read = models.PositiveBigIntegerField(_("rows read"), null=True)
    rows_written = models.PositiveBigIntegerField(_("rows written"), null=True)
    error = models.CharField(_("error"), max_length=ERROR_CHARACTERS_MAX, blank=True)

    duration_ms = models.PositiveBigIntegerField(_("duration (ms)"), null=True)
    cpu_ms = models.PositiveBigIntegerField(_("processor time (ms)"), null=True)
    memory_bytes_max = models.PositiveBigIntegerField(_("most memory (bytes)"), null=True)
    lineage = models.JSONField(_("lineage"), default=dict)

    class Meta:
        ordering = ["-id"]
        verbose_name = _("pipeline run")
        verbose_name_plural = _("pipeline runs")
        permissions = [("run_pipeline", "Can start and cancel runs of pipelines")]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=RunState.values), name="run_state_known"),
            models.CheckConstraint(
                condition=Q(window_end__gt=F("window_start")), name="run_window_ends_after_start"
            ),
            models.CheckConstraint(
                condition=Q(state__in=ACTIVE) ^ Q(ended_at__isnull=False), name="run_ends_once"
            ),
            models.UniqueConstraint(
                fields=["key"], condition=Q(state__in=ACTIVE), name="run_active_once_a_key"
            ),
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(state__in=ACTIVE), name="pipeline_run_active"),
            models.Index(fields=["job", "-id"], name="pipeline_run_by_job"),
            models.Index(fields=["key"], name="pipeline_run_by_key"),
        ]

    def __str__(self) -> str:
        """Return number, job and window."""
        return gettext("run %(number)s: %(job)s, %(start)s to %(end)s") % {
            "number": self.pk,
            "job": self.job,
            "start": f"{self.window_start:%F %T}",
            "end": f"{self.window_end:%F %T}",
        }

    @property
    def is_active(self) -> bool:
        """Say whether it waits or runs."""
        return self.state in ACTIVE


class RunInput(models.Model):
    """Which offsets of a queue, or rows of a table, went into a run; ends are not included."""

    run = models.ForeignKey(
        PipelineRun, verbose_name=_("run"), on_delete=models.CASCADE, related_name="inputs"
    )
    table = models.CharField(_("table"), max_length=40)
    topic = fields.topic(_("topic"))
    queue = models.PositiveIntegerField(_("queue"))
    first_offset = models.PositiveBigIntegerField(_("first offset"))
    end_offset = models.PositiveBigIntegerField(_("offset of the end"))
    rows = models.PositiveBigIntegerField(_("rows"))

    class Meta:
        ordering = ["id"]
        verbose_name = _("input of a run")
        verbose_name_plural = _("inputs of runs")
        constraints = [
            models.CheckConstraint(
                condition=Q(end_offset__gte=F("first_offset")), name="input_ends_after_its_first"
            ),
        ]

    def __str__(self) -> str:
        """Return the range."""
        return gettext("%(queue)s %(first)s to %(end)s") % {
            "queue": f"{self.topic}/{self.queue}",
            "first": self.first_offset,
            "end": self.end_offset,
        }
