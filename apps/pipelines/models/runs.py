"""Runs of jobs, and which messages went into each. Rows and constraints only."""

from django.db import models
from django.db.models import F, Q

from apps.groups.models import fields

ERROR_CHARACTERS_MAX = 4_000


class RunState(models.TextChoices):
    """Where a run is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted", "interrupted: its worker was killed or lost the database"


ACTIVE = (RunState.QUEUED, RunState.RUNNING)


class Trigger(models.TextChoices):
    """What asked for a run."""

    SCHEDULE = "schedule"
    PERSON = "person"
    COMMAND = "command"
    BACKFILL = "backfill"


class PipelineRun(models.Model):
    """One run of a job over a window of time, its end not included.

    `key` is a digest of job, window, topics, parameters and code version: while a run of it is
    active or done, asking again gives that one, unless it is asked to replace it. `percent` and
    `stage_rows_read` are of the stage `stage`. Costs are of the driver and all its processes.
    `published` is set in the transaction that made the run's files and rows visible. After
    `results_deleted_at` its rows of results are gone for their age, and it is here for what came of
    it in the lake.
    """

    job = models.CharField(max_length=40)
    window_start = models.DateTimeField()
    window_end = models.DateTimeField()
    topics = models.JSONField(default=list)
    parameters = models.JSONField(default=dict)
    key = models.CharField(max_length=64)
    code_version = models.CharField(max_length=40)
    trigger = models.CharField(max_length=10, choices=Trigger)
    requested_by = models.CharField(max_length=255)
    requested_at = models.DateTimeField()
    replaces = models.ForeignKey("self", on_delete=models.SET_NULL, null=True)

    state = models.CharField(max_length=12, choices=RunState, default=RunState.QUEUED)
    worker = models.CharField(max_length=255, blank=True)
    lease_ends_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    cancel_requested = models.BooleanField(default=False)
    cancelled_by = models.CharField(max_length=255, blank=True)
    published = models.BooleanField(default=False)
    results_deleted_at = models.DateTimeField(null=True)

    stage = models.CharField(max_length=100, blank=True)
    percent = models.FloatField(null=True)
    stage_rows_read = models.PositiveBigIntegerField(null=True)
    rows_expected = models.PositiveBigIntegerField(null=True)
    rows_read = models.PositiveBigIntegerField(null=True)
    rows_written = models.PositiveBigIntegerField(null=True)
    error = models.CharField(max_length=ERROR_CHARACTERS_MAX, blank=True)

    duration_ms = models.PositiveBigIntegerField(null=True)
    cpu_ms = models.PositiveBigIntegerField(null=True)
    memory_bytes_max = models.PositiveBigIntegerField(null=True)
    lineage = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]
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
        return f"run {self.pk}: {self.job}, {self.window_start:%F %T} to {self.window_end:%F %T}"

    @property
    def is_active(self) -> bool:
        """Say whether it waits or runs."""
        return self.state in ACTIVE


class RunInput(models.Model):
    """Which offsets of a queue, or rows of a table, went into a run; ends are not included."""

    run = models.ForeignKey(PipelineRun, on_delete=models.CASCADE, related_name="inputs")
    table = models.CharField(max_length=40)
    topic = fields.topic()
    queue = models.PositiveIntegerField()
    first_offset = models.PositiveBigIntegerField()
    end_offset = models.PositiveBigIntegerField()
    rows = models.PositiveBigIntegerField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(end_offset__gte=F("first_offset")), name="input_ends_after_its_first"
            ),
        ]

    def __str__(self) -> str:
        """Return the range."""
        return f"{self.topic}/{self.queue} {self.first_offset} to {self.end_offset}"
