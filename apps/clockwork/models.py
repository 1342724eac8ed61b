"""Tasks, their runs, and the processes of the clockwork. Rows and constraints only.

All times are the database's own clock: workers on several machines have no other clock in common.
"""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


class Outcome(models.TextChoices):
    """How a run ended."""

    RUNNING = "running", pgettext_lazy("task", "running")
    DONE = "done", pgettext_lazy("task", "done")
    FAILED = "failed", pgettext_lazy("task", "failed")
    INTERRUPTED = "interrupted", _("interrupted: its worker was killed or took too long")


class TaskState(models.Model):
    """One task: who runs it now and until when, how the last run went, when it is due."""

    name = models.CharField(_("name"), max_length=100, primary_key=True)
    owner = models.CharField(_("owner"), max_length=255, blank=True)
    lease_ends_at = models.DateTimeField(_("lease ends at"), null=True)
    due_at = models.DateTimeField(_("due at"), db_default=Now())
    has_more = models.BooleanField(_("has more to do"), default=False)
    last_started_at = models.DateTimeField(_("last started at"), null=True)
    last_ended_at = models.DateTimeField(_("last ended at"), null=True)
    last_duration_ms = models.PositiveIntegerField(_("last duration (ms)"), null=True)
    last_outcome = models.CharField(_("last outcome"), max_length=16, choices=Outcome, blank=True)
    last_error = models.CharField(_("last error"), max_length=500, blank=True)
    last_done = models.PositiveBigIntegerField(_("done by the last run"), null=True)
    run_count = models.PositiveBigIntegerField(_("runs"), default=0)
    failures_in_a_row = models.PositiveIntegerField(_("failures in a row"), default=0)

    class Meta:
        ordering = ["name"]
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
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

    task = models.CharField(_("task"), max_length=100)
    owner = models.CharField(_("owner"), max_length=255, unique=True)
    started_at = models.DateTimeField(_("started at"), db_default=Now())
    ended_at = models.DateTimeField(_("ended at"), null=True)
    outcome = models.CharField(
        _("outcome"), max_length=16, choices=Outcome, default=Outcome.RUNNING
    )
    done = models.PositiveBigIntegerField(_("things done"), null=True)
    has_more = models.BooleanField(_("has more to do"), default=False)
    error = models.CharField(_("error"), max_length=500, blank=True)

    class Meta:
        ordering = ["-started_at", "-id"]
        verbose_name = _("run of a task")
        verbose_name_plural = _("runs of tasks")
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
        return f"{self.task}: {self.get_outcome_display()}"


class Part(models.Model):
    """A process of the clockwork, as long as it says that it is there."""

    class Kind(models.TextChoices):
        """What the process does."""

        BEAT = "beat", pgettext_lazy("process", "beat")
        WORKER = "worker", pgettext_lazy("process", "worker")

    kind = models.CharField(_("kind"), max_length=8, choices=Kind)
    name = models.CharField(_("name"), max_length=255)
    started_at = models.DateTimeField(_("started at"), db_default=Now())
    seen_at = models.DateTimeField(_("seen at"), db_default=Now())

    class Meta:
        ordering = ["kind", "name"]
        verbose_name = _("process of the clockwork")
        verbose_name_plural = _("processes of the clockwork")
        constraints = [
            models.UniqueConstraint(fields=["kind", "name"], name="part_once_a_name"),
        ]

    def __str__(self) -> str:
        """Return kind and name."""
        return f"{self.get_kind_display()} {self.name}"
