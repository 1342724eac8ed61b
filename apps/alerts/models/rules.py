"""What is looked at and what nobody wants to hear of: rules and silences. Rows and constraints."""

from django.db import models
from django.db.models import F, Q

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

    name = models.CharField(max_length=fields.NAME_CHARACTERS_MAX, unique=True)
    kind = fields.kind()
    scope = fields.scope()
    subject = fields.subject(blank=True)
    threshold = models.FloatField()
    pending_s = models.PositiveIntegerField(default=60)
    severity = fields.severity()
    enabled = models.BooleanField(default=True)
    version = models.PositiveIntegerField(default=1)
    created_by = fields.actor(blank=True)
    created_at = models.DateTimeField()
    updated_by = fields.actor(blank=True)
    updated_at = models.DateTimeField()
    looked_at = models.DateTimeField(null=True, editable=False)
    unknown_since = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["name"]
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

    kind = fields.kind(blank=True)
    scope = fields.scope()
    subject = fields.subject(blank=True)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.CharField(max_length=fields.TEXT_CHARACTERS_MAX)
    created_by = fields.actor()
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = fields.actor(blank=True)

    class Meta:
        ordering = ["-id"]
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
        whom = {Scope.ANY.value: "anything", Scope.PREFIX.value: f"{self.subject}*"}
        return f"{self.kind or 'any kind'} of {whom.get(self.scope, self.subject)}"
