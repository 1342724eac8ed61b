"""What is looked at and what nobody wants to hear of: rules and silences. Rows and constraints."""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.alerts.kinds import THRESHOLD_MAX, Scope
from apps.alerts.models import fields

# A day: what may last longer is no alert.
PENDING_S_MAX = 86_400


class AlertRule(models.Model):
    """One number looked at, for the subjects of a scope.

    It fires where the number is `threshold` or more for `pending_s`. `version` grows by one a
    change. `looked_at` is the last look, and `unknown_since` since when the rule had nothing to
    look at; both are the evaluation's.
    """

    name = models.CharField(_("name"), max_length=fields.NAME_CHARACTERS_MAX, unique=True)
    kind = fields.kind(_("kind"))
    scope = fields.scope(_("scope"))
    subject = fields.subject(_("subject"), blank=True)
    threshold = models.FloatField(_("threshold"))
    pending_s = models.PositiveIntegerField(_("must last (s)"), default=60)
    severity = fields.severity(_("severity"))
    enabled = models.BooleanField(_("enabled"), default=True)
    version = models.PositiveIntegerField(_("version"), default=1)
    created_by = fields.actor(_("created by"), blank=True)
    created_at = models.DateTimeField(_("created at"))
    updated_by = fields.actor(_("updated by"), blank=True)
    updated_at = models.DateTimeField(_("updated at"))
    looked_at = models.DateTimeField(_("last looked at"), null=True, editable=False)
    unknown_since = models.DateTimeField(_("unknown since"), null=True, editable=False)

    class Meta:
        ordering = ["name"]
        verbose_name = _("alert rule")
        verbose_name_plural = _("alert rules")
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=fields.values(fields.KIND_CHOICES)), name="rule_kind_is_known"
            ),
            models.CheckConstraint(
                condition=Q(severity__in=fields.values(fields.SEVERITY_CHOICES)),
                name="rule_severity_is_known",
            ),
            models.CheckConstraint(
                condition=Q(scope=Scope.ANY.value, subject="")
                | (Q(scope__in=[Scope.PREFIX.value, Scope.NAME.value]) & ~Q(subject="")),
                name="rule_scope_has_its_subject",
            ),
            models.CheckConstraint(
                condition=Q(threshold__gt=0, threshold__lte=THRESHOLD_MAX),
                name="rule_threshold_in_range",
            ),
            models.CheckConstraint(
                condition=Q(pending_s__lte=PENDING_S_MAX), name="rule_pending_in_range"
            ),
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class Silence(models.Model):
    """A time in which nobody is told of the alerts it covers; an empty `kind` covers all kinds.

    One that was ended before its time has `ended_at` and `ended_by`.
    """

    kind = fields.kind(_("kind"), blank=True)
    scope = fields.scope(_("scope"))
    subject = fields.subject(_("subject"), blank=True)
    starts_at = models.DateTimeField(_("starts at"))
    ends_at = models.DateTimeField(_("ends at"))
    reason = models.CharField(_("reason"), max_length=fields.TEXT_CHARACTERS_MAX)
    created_by = fields.actor(_("created by"))
    created_at = models.DateTimeField(_("created at"))
    ended_at = models.DateTimeField(_("ended at"), null=True, blank=True)
    ended_by = fields.actor(_("ended by"), blank=True)

    class Meta:
        ordering = ["-id"]
        verbose_name = _("silence")
        verbose_name_plural = _("silences")
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("starts_at")), name="silence_ends_after_its_start"
            ),
            models.CheckConstraint(
                condition=Q(kind="") | Q(kind__in=fields.values(fields.KIND_CHOICES)),
                name="silence_kind_is_known",
            ),
            models.CheckConstraint(
                condition=Q(scope=Scope.ANY.value, subject="")
                | (Q(scope__in=[Scope.PREFIX.value, Scope.NAME.value]) & ~Q(subject="")),
                name="silence_scope_has_its_subject",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="silence_has_a_reason"),
        ]
        indexes = [models.Index(fields=["ends_at"], name="silence_by_end")]

    def __str__(self) -> str:
        """Return what is silenced."""
        whom = {Scope.ANY.value: gettext("anything"), Scope.PREFIX.value: f"{self.subject}*"}
        return gettext("%(kind)s of %(whom)s") % {
            "kind": self.get_kind_display() if self.kind else gettext("any kind"),
            "whom": whom.get(self.scope, self.subject),
        }
