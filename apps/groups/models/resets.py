"""Where operators had groups go on, and where the groups had been. Rows and constraints."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.engine import limits
from apps.groups.models import fields


class ResetState(models.TextChoices):
    """How far a reset got."""

    ASKED = "asked", pgettext_lazy("state", "asked")
    APPLIED = "applied", pgettext_lazy("state", "applied")
    UNDONE = "undone", pgettext_lazy("state", "undone")


class OffsetReset(models.Model):
    """One reset of a group's offsets, or the undoing of one.

    `queues` has a mapping for each queue: topic, queue, before, after. A row that is only `asked`
    for was not answered by the engine; whether it was carried out says the engine, when asked
    again. `moved_max` is how far the group may have read on meanwhile.
    """

    reset_id = models.CharField(
        _("reset id"), max_length=limits.RESET_ID_CHARACTERS_MAX, unique=True
    )
    group = fields.name(_("group"))
    target = models.CharField(_("target"), max_length=300)
    by = models.CharField(_("who"), max_length=limits.ACTOR_CHARACTERS_MAX)
    reason = fields.reason(_("reason"))
    at = models.DateTimeField(_("time"))
    state = models.CharField(_("state"), max_length=8, choices=ResetState)
    queues = models.JSONField(_("queues"), default=list)
    moved_max = models.PositiveBigIntegerField(_("messages read meanwhile, at most"), default=0)
    undoes = models.OneToOneField(
        "self",
        verbose_name=_("undoes"),
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="undone_by",
    )

    class Meta:
        ordering = ["-id"]
        verbose_name = _("offset reset")
        verbose_name_plural = _("offset resets")
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=ResetState.values), name="reset_state_is_known"
            ),
        ]
        indexes = [models.Index(fields=["group", "-id"], name="reset_by_group")]

    def __str__(self) -> str:
        """Return group and target."""
        return gettext("%(group)s to %(target)s") % {"group": self.group, "target": self.target}
