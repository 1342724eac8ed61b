"""Tasks, their runs, and the processes of the clockwork. Rows and constraints only.

All times are the database's own clock: workers on several machines have no other clock in common.
"""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now


class Outcome(models.TextChoices):
    """How a run ended."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted", "interrupted: its worker was killed or took too long"


class TaskState(models.Model):
    """One task: who runs it now and until when, how the last run went, when it is due."""

    name = models.CharField(max_length=100, primary_key=True)
    owner = models.CharField(max_length=255, blank=True)
    lease_ends_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(db_default=Now())
    has_more = models.BooleanField(default=False)
    last_started_at = models.DateTimeField(null=True)
    last_ended_at = models.DateTimeField(null=True)
    last_duration_ms = models.PositiveIntegerField(null=True)
    last_outcome = models.CharField(max_length=16, choices=Outcome, blank=True)
    last_error = models.CharField(max_length=500, blank=True)
    last_done = models.PositiveBigIntegerField(null=True)
    run_count = models.PositiveBigIntegerField(default=0)
    failures_in_a_row = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(owner="", lease_ends_at__isnull=True)
                | (~Q(owner="") & Q(lease_ends_at__isnull=False)),
                name="task_lease_has_owner_and_end",
            ),
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class TaskRun(models.Model):
    """One run of a task, kept for a while."""

    task = models.CharField(max_length=100)
    owner = models.CharField(max_length=255, unique=True)
    started_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=16, choices=Outcome, default=Outcome.RUNNING)
    done = models.PositiveBigIntegerField(null=True)
    has_more = models.BooleanField(default=False)
    error = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["-started_at", "-id"]
        indexes = [
            models.Index(fields=["task", "-started_at"], name="run_by_task"),
            models.Index(fields=["started_at"], name="run_by_start"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("started_at")),
                name="run_ends_after_its_start",
            ),
        ]

    def __str__(self) -> str:
        """Return task and outcome."""
        return f"{self.task}: {self.outcome}"


class Part(models.Model):
    """A process of the clockwork, as long as it says that it is there."""

    class Kind(models.TextChoices):
        """What the process does."""

        BEAT = "beat"
        WORKER = "worker"

    kind = models.CharField(max_length=8, choices=Kind)
    name = models.CharField(max_length=255)
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["kind", "name"]
        constraints = [
            models.UniqueConstraint(fields=["kind", "name"], name="part_once_a_name"),
        ]

    def __str__(self) -> str:
        """Return kind and name."""
        return f"{self.kind} {self.name}"
