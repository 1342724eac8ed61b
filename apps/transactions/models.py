"""What people did about transactions. Rows and constraints.

The transactions themselves are the engine's alone; there is no row of one that waits.
"""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.core.actors import CHARACTERS_MAX
from apps.engine import limits

REASON_CHARACTERS_MAX = 500


class Asked(models.TextChoices):
    """What somebody asked for."""

    COMMIT = "commit"
    ROLL_BACK = "roll_back", "roll back"
    CHECK = "check"
    SEND = "send", "send after all, though it was given up"


class Answer(models.TextChoices):
    """What the engine said to it."""

    NONE = "", "not known: it was asked, and no answer was written down"
    DONE = "done"
    REPEAT = "repeat", "repeat: it had been decided so before"
    REFUSED = "refused"
    FAILED = "failed", "failed: the broker could not be asked, or not in time"


class TransactionDecision(models.Model):
    """One request of a person about a transaction, written down before the engine is asked."""

    at = models.DateTimeField(db_default=Now())
    by = models.CharField(max_length=CHARACTERS_MAX)
    reason = models.CharField(max_length=REASON_CHARACTERS_MAX, blank=True)
    asked = models.CharField(max_length=12, choices=Asked)
    answer = models.CharField(max_length=12, choices=Answer, blank=True, default=Answer.NONE)
    detail = models.CharField(max_length=500, blank=True)
    transaction_id = models.CharField(max_length=100, db_collation="C")
    producer_group = models.CharField(max_length=limits.NAME_CHARACTERS_MAX, blank=True)
    topic = models.CharField(max_length=limits.NAME_CHARACTERS_MAX, blank=True)
    message_id = models.CharField(max_length=255, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["transaction_id"], name="decision_by_transaction")]
        constraints = [
            models.CheckConstraint(condition=Q(asked__in=Asked.values), name="asked_is_known"),
            models.CheckConstraint(condition=Q(answer__in=Answer.values), name="answer_is_known"),
        ]

    def __str__(self) -> str:
        """Return who asked for what."""
        return f"{self.asked} of {self.transaction_id} by {self.by}"
