"""Processes that hold a session of Spark. Rows and constraints only."""

from django.db import models
from django.db.models.functions import Now

from apps.pipelines.models.runs import PipelineRun


class PipelineWorker(models.Model):
    """One worker, as long as it says that it is there.

    `is_ready` tells whether it has a session. `memory_bytes` is of it and all its processes.
    """

    name = models.CharField(max_length=255, unique=True)
    master = models.CharField(max_length=255)
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())
    is_ready = models.BooleanField(default=False)
    run = models.ForeignKey(PipelineRun, on_delete=models.SET_NULL, null=True, related_name="+")
    run_count = models.PositiveIntegerField(default=0)
    memory_bytes = models.PositiveBigIntegerField(null=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        """Return the name."""
        return self.name
