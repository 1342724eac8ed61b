"""The audit log. Rows and constraints; a trigger refuses every change of a row that is there.

Acts are no choices of a column: entries outlive the list that was right when they were written.
"""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.audit import words
from apps.core.actors import CHARACTERS_MAX
from apps.core.origins import Door

ACT_CHARACTERS_MAX = 60
KIND_CHARACTERS_MAX = 40
NAME_CHARACTERS_MAX = 512
REASON_CHARACTERS_MAX = 1_000
DETAIL_CHARACTERS_MAX = 500
CODE_CHARACTERS_MAX = 60
ADDRESS_CHARACTERS_MAX = 64
AGENT_CHARACTERS_MAX = 255
HASH_CHARACTERS = 64


# Their words are those of `apps.audit.words`.
_DOORS = [(door.value, pgettext_lazy("door", door.value)) for door in Door]


class Result(models.TextChoices):
    """What came of an act."""

    ASKED = "asked", _("asked: begun, and its outcome is another entry, or is not known")
    DONE = "done", pgettext_lazy("state", "done")
    REFUSED = "refused", pgettext_lazy("state", "refused")
    FAILED = "failed", _("failed: it may have been done or not")


class AuditEntry(models.Model):
    """One act, or what came of one that `follows` names by its number.

    Numbers have no gaps. `hash` is SHA-256 of `previous_hash` and of all else in the entry, see
    `apps.audit.chain`. `count` is more than 1 where refusals of one minute were put together.
    """

    number = models.PositiveBigIntegerField(_("number"), primary_key=True)
    at = models.DateTimeField(_("time"))
    by = models.CharField(_("who"), max_length=CHARACTERS_MAX)
    door = models.CharField(_("door"), max_length=10, choices=_DOORS)
    address = models.CharField(_("address"), max_length=ADDRESS_CHARACTERS_MAX, blank=True)
    agent = models.CharField(_("program"), max_length=AGENT_CHARACTERS_MAX, blank=True)
    request_id = models.CharField(_("request id"), max_length=64, blank=True)
    act = models.CharField(_("act"), max_length=ACT_CHARACTERS_MAX)
    kind = models.CharField(_("kind"), max_length=KIND_CHARACTERS_MAX)
    name = models.CharField(_("name"), max_length=NAME_CHARACTERS_MAX, blank=True)
    reason = models.CharField(_("reason"), max_length=REASON_CHARACTERS_MAX, blank=True)
    before = models.JSONField(_("before"), null=True)
    after = models.JSONField(_("after"), null=True)
    result = models.CharField(_("result"), max_length=10, choices=Result)
    code = models.CharField(_("code"), max_length=CODE_CHARACTERS_MAX, blank=True)
    detail = models.CharField(_("detail"), max_length=DETAIL_CHARACTERS_MAX, blank=True)
    follows = models.PositiveBigIntegerField(_("follows entry"), null=True)
    count = models.PositiveIntegerField(_("count"), default=1)
    previous_hash = models.CharField(_("previous hash"), max_length=HASH_CHARACTERS, unique=True)
    hash = models.CharField(_("hash"), max_length=HASH_CHARACTERS, unique=True)

    class Meta:
        ordering = ["-number"]
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit entries")
        indexes = [
            models.Index(fields=["by", "-number"], name="audit_by"),
            models.Index(fields=["act", "-number"], name="audit_act"),
            models.Index(fields=["kind", "name", "-number"], name="audit_object"),
            models.Index(fields=["at"], name="audit_at"),
            models.Index(
                fields=["follows"], condition=Q(follows__isnull=False), name="audit_follows"
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(door__in=[door.value for door in Door]), name="audit_door_is_known"
            ),
            models.CheckConstraint(
                condition=Q(result__in=Result.values), name="audit_result_is_known"
            ),
            models.CheckConstraint(
                condition=Q(follows=None) | Q(follows__lt=F("number")),
                name="audit_follows_an_earlier_entry",
            ),
            models.CheckConstraint(
                condition=Q(number__gte=1, count__gte=1), name="audit_counts_from_one"
            ),
        ]

    def __str__(self) -> str:
        """Return number, act, object and result."""
        return gettext("%(number)s: %(act)s of %(kind)s %(name)s: %(result)s") % {
            "number": self.number,
            "act": words.act(self.act),
            "kind": words.kind(self.kind),
            "name": self.name,
            "result": self.get_result_display(),
        }
