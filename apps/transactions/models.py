"""What people did about transactions. Rows and constraints.

The transactions themselves are the engine's alone; there is no row of one that waits.
"""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.core.actors import CHARACTERS_MAX
from apps.engine import limits

REASON_CHARACTERS_MAX = 500


class Asked(models.TextChoices):
    """What somebody asked for."""

    COMMIT = "commit", _("commit it")
    ROLL_BACK = "roll_back", _("roll it back")
    CHECK = "check", _("ask its producer")
    SEND = "send", _("send after all, though it was given up")


class Answer(models.TextChoices):
    """What the engine said to it."""

    NONE = "", _("not known: it was asked, and no answer was written down")
    DONE = "done", pgettext_lazy("state", "done")
    REPEAT = "repeat", _("repeat: it had been decided so before")
    REFUSED = "refused", pgettext_lazy("state", "refused")
    FAILED = "failed", _("failed: the broker could not be asked, or not in time")


class TransactionDecision(models.Model):
    """One request of a person about a transaction, written down before the engine is asked."""

    at = models.DateTimeField(_("time"), db_default=Now())
    by = models.CharField(_("who"), max_length=CHARACTERS_MAX)
    reason = models.CharField(_("reason"), max_length=REASON_CHARACTERS_MAX, blank=True)
    asked = models.CharField(_("asked for"), max_length=12, choices=Asked)
    answer = models.CharField(
        _("answer"), max_length=12, choices=Answer, blank=True, default=Answer.NONE
    )
    detail = models.CharField(_("detail"), max_length=500, blank=True)
    transaction_id = models.CharField(_("transaction id"), max_length=100, db_collation="C")
    producer_group = models.CharField(
        _("producer group"), max_length=limits.NAME_CHARACTERS_MAX, blank=True
    )
    topic = models.CharField(_("topic"), max_length=limits.NAME_CHARACTERS_MAX, blank=True)
    message_id = models.CharField(_("message id"), max_length=255, blank=True)

    class Meta:
        ordering = ["-id"]
        verbose_name = _("decision about a transaction")
        verbose_name_plural = _("decisions about transactions")
        indexes = [
            models.Index(fields=["transaction_id"], name="decision_by_transaction"),
            models.Index(fields=["message_id"], name="decision_by_message"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(asked__in=Asked.values), name="asked_is_known"),
            models.CheckConstraint(condition=Q(answer__in=Answer.values), name="answer_is_known"),
        ]

    def __str__(self) -> str:
        """Return who asked for what."""
        return gettext("%(transaction)s: %(asked)s, by %(who)s") % {
            "transaction": self.transaction_id,
            "asked": self.get_asked_display(),
            "who": self.by,
        }
