"""How far groups are and who reads for them, as the database knows it. Rows and constraints."""

from django.db import models
from django.db.models import F, Q

from apps.engine import limits


class ConsumerOffset(models.Model):
    """Progress of a group in one queue: a projection of the engine's own state.

    The truth is in the engine's log; a row may be a few seconds old. A topic is kept by name,
    because progress outlives the topic's row.
    """

    group = models.CharField(max_length=limits.NAME_CHARACTERS_MAX, db_collation="C")
    topic = models.CharField(max_length=limits.NAME_CHARACTERS_MAX, db_collation="C")
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


class Member(models.Model):
    """A client of a group: a projection of what the engine has seen lately.

    The truth is in the broker's memory; `last_seen_at` may be half a minute old.
    """

    group = models.CharField(max_length=limits.NAME_CHARACTERS_MAX, db_collation="C")
    client_id = models.CharField(max_length=limits.CLIENT_ID_CHARACTERS_MAX, db_collation="C")
    topics = models.JSONField(default=list)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        ordering = ["group", "client_id"]
        constraints = [
            models.UniqueConstraint(fields=["group", "client_id"], name="member_once_a_group"),
        ]

    def __str__(self) -> str:
        """Return group and client id."""
        return f"{self.client_id} of {self.group}"
