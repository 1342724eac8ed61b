"""Roles, grants and tokens of accounts, and the version of them all. Rows and constraints only.

An account is Django's own user; one without a usable password belongs to a program.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.access import policy
from apps.engine import limits

LABEL_CHARACTERS_MAX = 80
BY_CHARACTERS_MAX = 255


class Role(models.TextChoices):
    """The bundle an account has; see `apps.access.policy.roles`."""

    NONE = policy.Role.NONE.value, "none"
    VIEWER = policy.Role.VIEWER.value, "viewer"
    OPERATOR = policy.Role.OPERATOR.value, "operator"
    ADMIN = policy.Role.ADMIN.value, "admin"


class Kind(models.TextChoices):
    """What a grant is about."""

    TOPIC = policy.Kind.TOPIC.value
    GROUP = policy.Kind.GROUP.value
    CLUSTER = policy.Kind.CLUSTER.value


class Match(models.TextChoices):
    """How a grant's name is compared."""

    LITERAL = policy.Match.LITERAL.value
    PREFIX = policy.Match.PREFIX.value
    ANY = policy.Match.ANY.value


class Effect(models.TextChoices):
    """What a grant does."""

    ALLOW = policy.Effect.ALLOW.value
    DENY = policy.Effect.DENY.value


class AccountRole(models.Model):
    """The role of an account; without a row it has none."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="access_role"
    )
    role = models.CharField(max_length=16, choices=Role, default=Role.NONE)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(role__in=Role.values), name="role_is_known")
        ]

    def __str__(self) -> str:
        """Return the role."""
        return self.role


class Grant(models.Model):
    """Actions on something, allowed or denied to an account."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="grants"
    )
    effect = models.CharField(max_length=8, choices=Effect, default=Effect.ALLOW)
    kind = models.CharField(max_length=8, choices=Kind)
    match = models.CharField(max_length=8, choices=Match, default=Match.LITERAL)
    # Names are compared byte by byte, as the engine does, whatever the database's language is.
    name = models.CharField(max_length=limits.NAME_CHARACTERS_MAX, blank=True, db_collation="C")
    actions = models.JSONField(default=list)
    sources = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=BY_CHARACTERS_MAX)

    class Meta:
        ordering = ["user", "kind", "name", "pk"]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=Kind.values), name="grant_kind_is_known"),
            models.CheckConstraint(
                condition=Q(match__in=Match.values), name="grant_match_is_known"
            ),
            models.CheckConstraint(
                condition=Q(effect__in=Effect.values), name="grant_effect_is_known"
            ),
            models.CheckConstraint(
                condition=Q(match=Match.ANY, name="") | (~Q(match=Match.ANY) & ~Q(name="")),
                name="grant_is_named_unless_any",
            ),
        ]

    def __str__(self) -> str:
        """Return it as a line."""
        what = {"any": f"any {self.kind}", "prefix": f"{self.kind} {self.name}*"}.get(
            self.match, f"{self.kind} {self.name}"
        )
        if self.kind == Kind.CLUSTER:
            what = "the cluster"
        return f"{self.effect} {', '.join(self.actions)} on {what}"


class ApiToken(models.Model):
    """A token, by its digest: what was shown once is kept nowhere."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens"
    )
    label = models.CharField(max_length=LABEL_CHARACTERS_MAX)
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    # Grants that can only narrow what the account may; none leaves it as it is.
    scopes = models.JSONField(default=list, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    # Written at most once a minute.
    last_used_at = models.DateTimeField(null=True, editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)
    revoked_by = models.CharField(max_length=BY_CHARACTERS_MAX, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=BY_CHARACTERS_MAX, editable=False)

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["user", "revoked_at"])]

    def __str__(self) -> str:
        """Return what of it may be seen."""
        return f"{self.prefix}… ({self.label})"


class AccessVersion(models.Model):
    """The version of all accounts, grants and tokens: one row, raised by every change."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    version = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="access_version_is_one_row")]

    def __str__(self) -> str:
        """Return the version."""
        return str(self.version)
