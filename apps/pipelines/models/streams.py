"""Streams: jobs that do not end, each a process of its own, and their batches."""

from django.db import models
from django.db.models import Q


class PipelineStream(models.Model):
    """One stream that is to run, and the process that does. `error` is how it last ended."""

    name = models.CharField(max_length=40, unique=True)
    topics = models.JSONField(default=list)
    parameters = models.JSONField(default=dict)
    is_wanted = models.BooleanField(default=True)
    worker = models.CharField(max_length=255, blank=True)
    lease_ends_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=4_000, blank=True)
    batch = models.BigIntegerField(null=True)
    lag = models.PositiveBigIntegerField(null=True)
    updated_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(worker="", lease_ends_at=None)
                | (~Q(worker="") & Q(lease_ends_at__isnull=False)),
                name="stream_lease_has_owner_and_end",
            ),
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class StreamBatch(models.Model):
    """One batch of a stream, once however often it was tried."""

    stream = models.ForeignKey(PipelineStream, on_delete=models.CASCADE, related_name="batches")
    number = models.BigIntegerField()
    rows = models.PositiveBigIntegerField()
    duration_ms = models.PositiveIntegerField()
    lag = models.PositiveBigIntegerField(null=True)
    ended_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["stream", "number"], name="batch_once_a_stream"),
        ]

    def __str__(self) -> str:
        """Return stream and number."""
        return f"batch {self.number} of {self.stream}"
