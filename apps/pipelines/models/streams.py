"""Streams: jobs that do not end, each a process of its own, and their batches."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _


class PipelineStream(models.Model):
    """One stream that is to run, and the process that does. `error` is how it last ended."""

    name = models.CharField(_("name"), max_length=40, unique=True)
    topics = models.JSONField(_("topics"), default=list)
    parameters = models.JSONField(_("parameters"), default=dict)
    is_wanted = models.BooleanField(_("to be kept running"), default=True)
    worker = models.CharField(_("worker"), max_length=255, blank=True)
    lease_ends_at = models.DateTimeField(_("lease ends at"), null=True)
    started_at = models.DateTimeField(_("started at"), null=True)
    error = models.CharField(_("error"), max_length=4_000, blank=True)
    batch = models.BigIntegerField(_("batch"), null=True)
    lag = models.PositiveBigIntegerField(_("lag"), null=True)
    updated_at = models.DateTimeField(_("updated at"), null=True)

    class Meta:
        ordering = ["name"]
        verbose_name = _("pipeline stream")
        verbose_name_plural = _("pipeline streams")
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

    stream = models.ForeignKey(
        PipelineStream, verbose_name=_("stream"), on_delete=models.CASCADE, related_name="batches"
    )
    number = models.BigIntegerField(_("number"))
    rows = models.PositiveBigIntegerField(_("rows"))
    duration_ms = models.PositiveIntegerField(_("duration (ms)"))
    lag = models.PositiveBigIntegerField(_("lag"), null=True)
    ended_at = models.DateTimeField(_("ended at"))

    class Meta:
        ordering = ["-id"]
        verbose_name = _("batch of a stream")
        verbose_name_plural = _("batches of streams")
        constraints = [
            models.UniqueConstraint(fields=["stream", "number"], name="batch_once_a_stream"),
        ]

    def __str__(self) -> str:
        """Return stream and number."""
        return gettext("batch %(number)s of %(stream)s") % {
            "number": self.number,
            "stream": self.stream,
        }
