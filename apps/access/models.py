"""Roles, grants, tokens, sessions and second factors of accounts. Rows and constraints only.

An account is Django's own user; one without a usable password belongs to a program.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import translation
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.access import policy
from apps.core.languages import DEFAULT
from apps.engine import limits

LABEL_CHARACTERS_MAX = 80
BY_CHARACTERS_MAX = 255
ADDRESS_CHARACTERS_MAX = 45
AGENT_CHARACTERS_MAX = 200


class Role(models.TextChoices):
    """The bundle an account has; see `apps.access.policy.roles`."""

    NONE = policy.Role.NONE.value, pgettext_lazy("role", "none")
    VIEWER = policy.Role.VIEWER.value, pgettext_lazy("role", "viewer")
    OPERATOR = policy.Role.OPERATOR.value, pgettext_lazy("role", "operator")
    ADMIN = policy.Role.ADMIN.value, pgettext_lazy("role", "admin")


class Kind(models.TextChoices):
    """What a grant is about."""

    TOPIC = policy.Kind.TOPIC.value, _("topic")
    GROUP = policy.Kind.GROUP.value, _("group")
    CLUSTER = policy.Kind.CLUSTER.value, _("the installation")


class Match(models.TextChoices):
    """How a grant's name is compared."""

    LITERAL = policy.Match.LITERAL.value, _("the very name")
    PREFIX = policy.Match.PREFIX.value, _("names that begin so")
    ANY = policy.Match.ANY.value, _("any name")


class Effect(models.TextChoices):
    """What a grant does."""

    ALLOW = policy.Effect.ALLOW.value, _("allow")
    DENY = policy.Effect.DENY.value, _("deny")


class AccountRole(models.Model):
    """The role of an account; without a row it has none."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        verbose_name=_("account"),
        on_delete=models.CASCADE,
        related_name="access_role",
    )
    role = models.CharField(_("role"), max_length=16, choices=Role, default=Role.NONE)

    class Meta:
        verbose_name = _("role of an account")
        verbose_name_plural = _("roles of accounts")
        constraints = [
            models.CheckConstraint(condition=Q(role__in=Role.values), name="role_is_known")
        ]

    def __str__(self) -> str:
        """Return the role."""
        return self.get_role_display()


class Grant(models.Model):
    """Actions on something, allowed or denied to an account."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("account"),
        on_delete=models.CASCADE,
        related_name="grants",
    )
    effect = models.CharField(_("effect"), max_length=8, choices=Effect, default=Effect.ALLOW)
    kind = models.CharField(_("kind"), max_length=8, choices=Kind)
    match = models.CharField(_("match"), max_length=8, choices=Match, default=Match.LITERAL)
    # Names are compared byte by byte, as the engine does, whatever the database's language is.
    name = models.CharField(
        _("name"), max_length=limits.NAME_CHARACTERS_MAX, blank=True, db_collation="C"
    )
    actions = models.JSONField(_("actions"), default=list)
    sources = models.JSONField(_("networks"), default=list, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    created_by = models.CharField(_("created by"), max_length=BY_CHARACTERS_MAX)

    class Meta:
        ordering = ["user", "kind", "name", "pk"]
        verbose_name = _("grant")
        verbose_name_plural = _("grants")
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
        what = {
            Match.ANY.value: gettext("any %(kind)s"),
            Match.PREFIX.value: gettext("%(kind)s %(name)s*"),
        }.get(self.match, gettext("%(kind)s %(name)s"))
        if self.kind == Kind.CLUSTER:
            what = gettext("the cluster")
        named = what % {"kind": self.get_kind_display(), "name": self.name}
        return gettext("%(effect)s %(actions)s on %(what)s") % {
            "effect": self.get_effect_display(),
            "actions": ", ".join(self.actions),
            "what": named,
        }

    @property
    def english(self) -> str:
        """It as a line for programs and logs, whoever reads the page that asked for it."""
        with translation.override(DEFAULT):
            return str(self)


class ApiToken(models.Model):
    """A token, by its digest: what was shown once is kept nowhere."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("account"),
        on_delete=models.CASCADE,
        related_name="tokens",
    )
    label = models.CharField(_("label"), max_length=LABEL_CHARACTERS_MAX)
    prefix = models.CharField(_("prefix"), max_length=16, unique=True, editable=False)
    digest = models.CharField(_("digest"), max_length=64, unique=True, editable=False)
    # Grants that can only narrow what the account may; none leaves it as it is.
    scopes = models.JSONField(_("narrowed to"), default=list, blank=True)
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    # Written at most once a minute.
    last_used_at = models.DateTimeField(_("last used at"), null=True, editable=False)
    revoked_at = models.DateTimeField(_("revoked at"), null=True, editable=False)
    revoked_by = models.CharField(
        _("revoked by"), max_length=BY_CHARACTERS_MAX, blank=True, editable=False
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    created_by = models.CharField(_("created by"), max_length=BY_CHARACTERS_MAX, editable=False)

    class Meta:
        ordering = ["-pk"]
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")
        indexes = [models.Index(fields=["user", "revoked_at"])]

    def __str__(self) -> str:
        """Return what of it may be seen."""
        return f"{self.prefix}… ({self.label})"


class AccountSession(models.Model):
    """A session that somebody signed in to: when and where it began, and was seen last.

    The session itself is Django's; a row without one is of a session that has ended. `seen_at` is
    a minute old at most, and so is the address.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("account"),
        on_delete=models.CASCADE,
        related_name="sign_ins",
    )
    session_key = models.CharField(
        _("key of the session"), max_length=40, unique=True, editable=False
    )
    begun_at = models.DateTimeField(_("begun at"))
    seen_at = models.DateTimeField(_("last seen at"))
    address = models.CharField(_("address"), max_length=ADDRESS_CHARACTERS_MAX, blank=True)
    agent = models.CharField(_("agent"), max_length=AGENT_CHARACTERS_MAX, blank=True)

    class Meta:
        verbose_name = _("session")
        verbose_name_plural = _("sessions")
        ordering = ["-seen_at", "-pk"]

    def __str__(self) -> str:
        """Return where it is from, without what would let somebody in."""
        where = self.address or gettext("an unknown address")
        return gettext("session %(number)d from %(address)s") % {
            "number": self.pk,
            "address": where,
        }


class SecondFactor(models.Model):
    """The codes by time that an account signs in with, from `confirmed_at` on.

    The secret is made of `salt` and the installation's key: rows alone tell nobody a code.
    `last_step` is the time step of the last code that was taken, which no later one may repeat.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        verbose_name=_("account"),
        on_delete=models.CASCADE,
        related_name="second_factor",
    )
    salt = models.CharField(_("salt"), max_length=64, editable=False)
    begun_at = models.DateTimeField(_("begun at"))
    confirmed_at = models.DateTimeField(_("confirmed at"), null=True, editable=False)
    last_step = models.PositiveBigIntegerField(
        _("time step of the last code"), default=0, editable=False
    )

    class Meta:
        verbose_name = _("second factor")
        verbose_name_plural = _("second factors")

    def __str__(self) -> str:
        """Say whether it is on."""
        return gettext("on") if self.confirmed_at else gettext("not confirmed yet")


class RecoveryCode(models.Model):
    """A code that is good once in place of one by time, by its digest."""

    factor = models.ForeignKey(
        SecondFactor,
        verbose_name=_("second factor"),
        on_delete=models.CASCADE,
        related_name="codes",
    )
    digest = models.CharField(_("digest"), max_length=64, editable=False)
    used_at = models.DateTimeField(_("used at"), null=True, editable=False)

    class Meta:
        verbose_name = _("recovery code")
        verbose_name_plural = _("recovery codes")
        constraints = [
            models.UniqueConstraint(fields=["factor", "digest"], name="recovery_code_once")
        ]

    def __str__(self) -> str:
        """Say whether it was used."""
        return gettext("used") if self.used_at else gettext("unused")


class AccessVersion(models.Model):
    """The version of all accounts, grants and tokens: one row, raised by every change."""

    id = models.PositiveSmallIntegerField("ID", primary_key=True, default=1)
    version = models.PositiveBigIntegerField(_("version"), default=0)

    class Meta:
        verbose_name = _("version of access")
        verbose_name_plural = _("versions of access")
        constraints = [models.CheckConstraint(condition=Q(id=1), name="access_version_is_one_row")]

    def __str__(self) -> str:
        """Return the version."""
        return str(self.version)
