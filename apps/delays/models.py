"""How far each delay level is delivered. Rows and constraints.

A projection: the truth is in the engine's log, in the same frames as the deliveries.
"""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _


class DelayLevel(models.Model):
    """One delay level when a row was last written; what lies between the two offsets waits.

    `late_ms` is how late the last delivery was, empty before the first since the broker started.
    """

    level = models.PositiveSmallIntegerField(_("level"), primary_key=True)
    delay_ms = models.PositiveBigIntegerField(_("delay (ms)"))
    delivered = models.PositiveBigIntegerField(_("delivered offset"))
    max_offset = models.PositiveBigIntegerField(_("max offset"))
    head_due_at = models.DateTimeField(_("head due at"), null=True)
    late_ms = models.PositiveBigIntegerField(_("late by (ms)"), null=True)
    sampled_at = models.DateTimeField(_("sampled at"))

    class Meta:
        ordering = ["level"]
        verbose_name = _("delay level")
        verbose_name_plural = _("delay levels")
        constraints = [
            models.CheckConstraint(
                condition=Q(delivered__lte=F("max_offset")), name="level_delivered_within_its_queue"
            ),
        ]

    def __str__(self) -> str:
        """Return the level."""
        return gettext("level %(level)s") % {"level": self.level}

    @property
    def pending(self) -> int:
        """Return how many messages wait in the level."""
        return self.max_offset - self.delivered
