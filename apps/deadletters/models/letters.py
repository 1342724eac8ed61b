"""Dead letters as the database knows them. Rows and constraints.

A projection of the queue `%DLQ%group` in the engine's log, but for `state` and all below it: what
operators did about a letter is decided here. The body stays in the log.
"""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.groups.models import fields

# Texts of producers, cut to what an index takes.
TEXT_CHARACTERS_MAX = 255
KEYS_CHARACTERS_MAX = 1_000
STORE_ID_CHARACTERS = 32


class State(models.TextChoices):
    """What became of a dead letter."""

    WAITING = "waiting", pgettext_lazy("state", "waiting")
    RESENDING = "resending", _("resending: claimed by a job")
    RESENT = "resent", pgettext_lazy("state", "resent")
    DISCARDED = "discarded", pgettext_lazy("state", "discarded")
    GONE = "gone", _("gone: the log does not hold it any more")


class DeadLetter(models.Model):
    """One dead letter of a group. `history` is a list of `[number, at_ms, reason, client_id]`.

    The same place of another store is another letter. `attempts` counts failed ones, `reason` is
    the last one's. `trouble` is why the last job that had it could not send it again.
    """

    store_id = models.CharField(_("store id"), max_length=STORE_ID_CHARACTERS)
    group = fields.name(_("group"))
    queue_offset = models.PositiveBigIntegerField(_("queue offset"))
    origin_topic = models.CharField(
        _("original topic"), max_length=TEXT_CHARACTERS_MAX, db_collation="C", blank=True
    )
    origin_queue = models.PositiveBigIntegerField(_("original queue"), null=True)
    origin_offset = models.PositiveBigIntegerField(_("original offset"), null=True)
    message_id = models.CharField(_("message id"), max_length=TEXT_CHARACTERS_MAX, db_collation="C")
    keys = models.CharField(_("keys"), max_length=KEYS_CHARACTERS_MAX, blank=True)
    tag = models.CharField(_("tag"), max_length=TEXT_CHARACTERS_MAX, blank=True)
    attempts = models.PositiveIntegerField(_("attempts"))
    reason = fields.reason(_("reason"))
    history = models.JSONField(_("history of failures"), default=list)
    first_failed_at = models.DateTimeField(_("first failed at"), null=True)
    dead_at = models.DateTimeField(_("died at"))
    size_bytes = models.PositiveIntegerField(_("size (bytes)"))

    state = models.CharField(_("state"), max_length=12, choices=State, default=State.WAITING)
    job = models.ForeignKey(
        "deadletters.ResendJob",
        verbose_name=_("job"),
        on_delete=models.PROTECT,
        null=True,
        related_name="letters",
    )
    trouble = fields.reason(_("trouble"))
    resent_at = models.DateTimeField(_("sent again at"), null=True)
    resent_topic = models.CharField(
        _("sent again to topic"), max_length=TEXT_CHARACTERS_MAX, blank=True
    )
    resent_queue = models.PositiveIntegerField(_("sent again to queue"), null=True)
    resent_offset = models.PositiveBigIntegerField(_("sent again to offset"), null=True)
    discarded_at = models.DateTimeField(_("discarded at"), null=True)
    discarded_by = models.CharField(_("discarded by"), max_length=TEXT_CHARACTERS_MAX, blank=True)
    discard_reason = fields.reason(_("why it was discarded"))

    class Meta:
        ordering = ["-id"]
        verbose_name = _("dead letter")
        verbose_name_plural = _("dead letters")
        permissions = [("resend_deadletter", "Can resend or discard dead letters")]
        constraints = [
            models.UniqueConstraint(
                fields=["store_id", "group", "queue_offset"], name="letter_once_a_place"
            ),
            models.CheckConstraint(
                condition=Q(state__in=State.values), name="letter_state_is_known"
            ),
            models.CheckConstraint(
                condition=~Q(state__in=[State.RESENDING, State.RESENT]) | Q(job__isnull=False),
                name="letter_sent_again_has_a_job",
            ),
            models.CheckConstraint(
                condition=~Q(state=State.WAITING) | Q(job=None), name="letter_waiting_has_no_job"
            ),
            models.CheckConstraint(
                condition=~Q(state=State.DISCARDED)
                | (Q(discarded_at__isnull=False) & ~Q(discard_reason="")),
                name="letter_discarded_has_a_reason",
            ),
        ]
        indexes = [
            models.Index(fields=["group", "state", "id"], name="letter_by_state"),
            models.Index(fields=["group", "message_id"], name="letter_by_message"),
            models.Index(fields=["group", "dead_at"], name="letter_by_time"),
            models.Index(fields=["dead_at"], name="letter_by_death"),
        ]

    def __str__(self) -> str:
        """Return group and offset."""
        return f"{self.group} #{self.queue_offset}"
