"""How far groups are, as the database knows it. Rows and constraints."""

from django.db import models
from django.db.models import F, Q

from apps.groups.models import fields


class ConsumerOffset(models.Model):
    """Progress of a group in one queue: a projection of the engine's own state.

    The truth is in the engine's log; a row may be a few seconds old. A topic is kept by name,
    because progress outlives the topic's row.
    """

    group = fields.name()
    topic = fields.topic()
    queue = models.PositiveSmallIntegerField()
    committed = models.PositiveBigIntegerField()
    delivered = models.PositiveBigIntegerField()
    updated_at = models.DateTimeField()

    class Meta:
        ordering = ["group", "topic", "queue"]
        constraints = [
            models.UniqueConstraint(
                fields=["group", "topic", "queue"], name="offset_once_a_group_and_queue"
            ),
            models.CheckConstraint(
                condition=Q(committed__lte=F("delivered")), name="offset_committed_after_delivery"
            ),
        ]

    def __str__(self) -> str:
        """Return group, topic and queue."""
        return f"{self.group} in {self.topic}/{self.queue}"
