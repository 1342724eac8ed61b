"""Who is told of alerts, what they are to be told, and what came of each attempt. Rows only.

Notifications are an outbox: written with the change they tell of, sent afterwards by a task.
"""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.alerts.kinds import Severity
from apps.alerts.models import fields

URL_CHARACTERS_MAX = 2_000
RECIPIENTS_MAX = 20
RATE_PER_MIN_MAX = 600


class ChannelKind(models.TextChoices):
    """How a channel is told."""

    WEBHOOK = "webhook", _("webhook: a JSON document")
    DINGTALK = "dingtalk", _("DingTalk robot")
    SLACK = "slack", _("Slack webhook")
    MAIL = "mail", _("mail")


class Channel(models.Model):
    """A place to tell alerts to: an address to post to, or recipients of mail.

    It gets alerts of `severity_min` and above, at most `rate_per_min` notifications a minute.
    """

    name = models.CharField(_("name"), max_length=fields.NAME_CHARACTERS_MAX, unique=True)
    kind = models.CharField(_("kind"), max_length=8, choices=ChannelKind)
    url = models.CharField(_("URL"), max_length=URL_CHARACTERS_MAX, blank=True)
    recipients = models.JSONField(_("recipients"), default=list, blank=True)
    severity_min = fields.severity(_("severity, at least"), default=Severity.INFO)
    rate_per_min = models.PositiveIntegerField(_("notifications a minute, at most"), default=30)
    tells_end = models.BooleanField(
        _("tells the end"), default=True, help_text=_("Tell also that an alert is over.")
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    version = models.PositiveIntegerField(_("version"), default=1)
    created_by = fields.actor(_("created by"), blank=True)
    created_at = models.DateTimeField(_("created at"))
    updated_by = fields.actor(_("updated by"), blank=True)
    updated_at = models.DateTimeField(_("updated at"))

    class Meta:
        ordering = ["name"]
        verbose_name = _("alert channel")
        verbose_name_plural = _("alert channels")
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=ChannelKind.values), name="channel_kind_is_known"
            ),
            models.CheckConstraint(
                condition=(Q(kind=ChannelKind.MAIL, url="") & ~Q(recipients=[]))
                | (~Q(kind=ChannelKind.MAIL) & ~Q(url="") & Q(recipients=[])),
                name="channel_has_an_address",
            ),
            models.CheckConstraint(
                condition=Q(rate_per_min__gte=1, rate_per_min__lte=RATE_PER_MIN_MAX),
                name="channel_rate_in_range",
            ),
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class NotificationState(models.TextChoices):
    """What became of a notification."""

    WAITING = "waiting", pgettext_lazy("state", "waiting")
    SENDING = "sending", _("sending: claimed by a worker")
    SENT = "sent", pgettext_lazy("state", "sent")
    FAILED = "failed", _("failed: given up")


class Notification(models.Model):
    """One thing a channel is to be told. `facts` are what its text is made of.

    `next_at` is when it is tried next; while a worker has it, when it counts as left behind.
    """

    channel = models.ForeignKey(
        Channel, verbose_name=_("channel"), on_delete=models.CASCADE, related_name="notifications"
    )
    alert = models.ForeignKey(
        "alerts.Alert",
        verbose_name=_("alert"),
        on_delete=models.CASCADE,
        null=True,
        related_name="notifications",
    )
    facts = models.JSONField(_("facts"))
    state = models.CharField(
        _("state"), max_length=8, choices=NotificationState, default=NotificationState.WAITING
    )
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    next_at = models.DateTimeField(_("next try"))
    error = fields.text(_("error"))
    created_at = models.DateTimeField(_("created at"))
    ended_at = models.DateTimeField(_("ended at"), null=True)

    class Meta:
        ordering = ["-id"]
        verbose_name = _("notification")
        verbose_name_plural = _("notifications")
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=NotificationState.values), name="notification_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(state__in=[NotificationState.WAITING, NotificationState.SENDING])
                ^ Q(ended_at__isnull=False),
                name="notification_ends_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_at"],
                condition=Q(state__in=[NotificationState.WAITING, NotificationState.SENDING]),
                name="notification_due",
            ),
            models.Index(fields=["ended_at"], name="notification_by_end"),
        ]

    def __str__(self) -> str:
        """Return the number and the channel."""
        return gettext("notification %(number)s to %(channel)s") % {
            "number": self.pk,
            "channel": self.channel_id,
        }


class Delivery(models.Model):
    """One attempt at a notification: the status that was answered, or why there was none."""

    notification = models.ForeignKey(
        Notification,
        verbose_name=_("notification"),
        on_delete=models.CASCADE,
        related_name="deliveries",
    )
    channel = models.ForeignKey(
        Channel, verbose_name=_("channel"), on_delete=models.CASCADE, related_name="deliveries"
    )
    at = models.DateTimeField(_("time"))
    is_good = models.BooleanField(_("went well"))
    status = models.PositiveSmallIntegerField(_("status"), null=True)
    duration_ms = models.PositiveIntegerField(_("duration (ms)"))
    error = fields.text(_("error"))

    class Meta:
        ordering = ["-id"]
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        indexes = [models.Index(fields=["channel", "-at"], name="delivery_by_channel")]

    def __str__(self) -> str:
        """Return the notification and what came of it."""
        return f"{self.notification_id}: {gettext('sent') if self.is_good else self.error}"
