"""What rules found: alerts, what became of each, and when rules were looked at. Rows only."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.alerts.judging import FIRED, OPEN, State
from apps.alerts.models import fields

_STATES = [state.value for state in State]
# Their words are those of apps/console/state_words.py.
_STATE_CHOICES = [(name, pgettext_lazy("state", name)) for name in _STATES]
_OPEN = [state.value for state in OPEN]
_FIRED = [state.value for state in FIRED]


class Alert(models.Model):
    """A rule that found a subject. What the rule said then is kept: it may change or go.

    There is one open alert a rule and subject. `value` is the last known one and `peak` the
    highest; `unknown_since` is since when it is not known. `resolution` says why it is over.
    `is_told` says that channels were told that it fires, or that there was none to be told.
    """

    rule = models.ForeignKey(
        "alerts.AlertRule",
        verbose_name=_("rule"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="alerts",
    )
    rule_name = models.CharField(_("rule"), max_length=fields.NAME_CHARACTERS_MAX)
    kind = fields.kind(_("kind"))
    severity = fields.severity(_("severity"))
    threshold = models.FloatField(_("threshold"))
    subject = fields.subject(_("subject"))
    state = models.CharField(_("state"), max_length=12, choices=_STATE_CHOICES)
    value = models.FloatField(_("value"), null=True)
    peak = models.FloatField(_("peak"), null=True)
    pending_at = models.DateTimeField(_("pending since"))
    fired_at = models.DateTimeField(_("fired at"), null=True)
    clear_since = models.DateTimeField(_("clear since"), null=True)
    unknown_since = models.DateTimeField(_("unknown since"), null=True)
    acknowledged_at = models.DateTimeField(_("acknowledged at"), null=True)
    acknowledged_by = fields.actor(_("acknowledged by"), blank=True)
    note = fields.text(_("note"))
    resolved_at = models.DateTimeField(_("over at"), null=True)
    resolution = fields.text(_("why it is over"))
    is_told = models.BooleanField(_("channels were told"), default=False)

    class Meta:
        ordering = ["-id"]
        verbose_name = _("alert")
        verbose_name_plural = _("alerts")
        constraints = [
            models.CheckConstraint(condition=Q(state__in=_STATES), name="alert_state_is_known"),
            models.UniqueConstraint(
                fields=["rule", "subject"],
                condition=Q(state__in=_OPEN),
                name="alert_once_a_rule_and_subject",
            ),
            models.CheckConstraint(
                condition=Q(state__in=_OPEN) ^ Q(resolved_at__isnull=False),
                name="alert_ends_once",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=_FIRED) | Q(fired_at__isnull=False),
                name="alert_that_fires_has_its_moment",
            ),
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(state__in=_OPEN), name="alert_open"),
            models.Index(fields=["resolved_at"], name="alert_by_end"),
            models.Index(fields=["subject", "-id"], name="alert_by_subject"),
        ]

    def __str__(self) -> str:
        """Return rule and subject."""
        return f"{self.rule_name}: {self.subject}"


class AlertEvent(models.Model):
    """One change of an alert: into which state, by whom where a person did it."""

    alert = models.ForeignKey(
        Alert, verbose_name=_("alert"), on_delete=models.CASCADE, related_name="events"
    )
    at = models.DateTimeField(_("time"))
    state = models.CharField(_("state"), max_length=12, choices=_STATE_CHOICES)
    value = models.FloatField(_("value"), null=True)
    by = fields.actor(_("who"), blank=True)
    note = fields.text(_("note"))

    class Meta:
        ordering = ["id"]
        verbose_name = _("alert event")
        verbose_name_plural = _("alert events")

    def __str__(self) -> str:
        """Return state and alert."""
        return f"{self.get_state_display()}: {self.alert_id}"


class Watch(models.Model):
    """When all rules were looked at last; its row is the lock of an evaluation."""

    id = models.PositiveSmallIntegerField("ID", primary_key=True, default=1)
    evaluated_at = models.DateTimeField(_("evaluated at"), null=True)

    class Meta:
        verbose_name = _("evaluation of alert rules")
        verbose_name_plural = _("evaluations of alert rules")
        constraints = [models.CheckConstraint(condition=Q(id=1), name="alert_watch_is_one_row")]

    def __str__(self) -> str:
        """Return the moment."""
        return f"{self.evaluated_at:%F %T}" if self.evaluated_at else "-"
