"""Processes that hold a session of Spark. Rows and constraints only."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from apps.pipelines.models.runs import PipelineRun


class PipelineWorker(models.Model):
    """One worker, as long as it says that it is there.

    `is_ready` tells whether it has a session. `memory_bytes` is of it and all its processes.
    """

    name = models.CharField(_("name"), max_length=255, unique=True)
    master = models.CharField(_("Spark master"), max_length=255)
    started_at = models.DateTimeField(_("started at"), db_default=Now())
    seen_at = models.DateTimeField(_("seen at"), db_default=Now())
    is_ready = models.BooleanField(_("ready"), default=False)
    run = models.ForeignKey(
        PipelineRun, verbose_name=_("run"), on_delete=models.SET_NULL, null=True, related_name="+"
    )
    run_count = models.PositiveIntegerField(_("runs"), default=0)
    memory_bytes = models.PositiveBigIntegerField(_("memory (bytes)"), null=True)

    class Meta:
        ordering = ["name"]
        verbose_name = _("pipeline worker")
        verbose_name_plural = _("pipeline workers")

    def __str__(self) -> str:
        """Return the name."""
        return self.name
