"""How far groups are, as the database knows it. Rows and constraints."""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.groups.models import fields


class ConsumerOffset(models.Model):
    """Progress of a group in one queue: a projection of the engine's own state.

    The truth is in the engine's log; a row may be a few seconds old. A topic is kept by name,
    because progress outlives the topic's row.
    """

    group = fields.name(_("group"))
    topic = fields.topic(_("topic"))
    queue = models.PositiveSmallIntegerField(_("queue"))
    committed = models.PositiveBigIntegerField(_("committed offset"))
    delivered = models.PositiveBigIntegerField(_("delivered offset"))
    updated_at = models.DateTimeField(_("updated at"))

    class Meta:
        ordering = ["group", "topic", "queue"]
        verbose_name = _("consumer offset")
        verbose_name_plural = _("consumer offsets")
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
        return gettext("%(group)s in %(topic)s/%(queue)s") % {
            "group": self.group,
            "topic": self.topic,
            "queue": self.queue,
        }
