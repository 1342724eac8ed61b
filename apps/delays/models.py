"""How far each delay level is delivered. Rows and constraints.

A projection: the truth is in the engine's log, in the same frames as the deliveries.
"""

from django.db import models
from django.db.models import F, Q


class DelayLevel(models.Model):
    """One delay level when a row was last written; what lies between the two offsets waits.

    `late_ms` is how late the last delivery was, empty before the first since the broker started.
    """

    level = models.PositiveSmallIntegerField(primary_key=True)
    delay_ms = models.PositiveBigIntegerField()
    delivered = models.PositiveBigIntegerField()
    max_offset = models.PositiveBigIntegerField()
    head_due_at = models.DateTimeField(null=True)
    late_ms = models.PositiveBigIntegerField(null=True)
    sampled_at = models.DateTimeField()

    class Meta:
        ordering = ["level"]
        constraints = [
            models.CheckConstraint(
                condition=Q(delivered__lte=F("max_offset")), name="level_delivered_within_its_queue"
            ),
        ]

    def __str__(self) -> str:
        """Return the level."""
        return f"level {self.level}"

    @property
    def pending(self) -> int:
        """Return how many messages wait in the level."""
        return self.max_offset - self.delivered
