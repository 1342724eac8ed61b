"""Locks of queues and how they went from hand to hand. Rows and constraints.

Projections: the truth is the broker's lock table and its journal.
"""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.engine.grouptypes import LockChange
from apps.groups.models import fields


class State(models.TextChoices):
    """How a lock was found when its row was written."""

    HELD = "held", pgettext_lazy("state", "held")
    EXPIRED = "expired", pgettext_lazy("state", "expired")
    FREE = "free", pgettext_lazy("state", "free")


class Change(models.TextChoices):
    """Why a line of a lock's history was written."""

    ACQUIRED = LockChange.ACQUIRED.value, pgettext_lazy("change of a lock", "acquired")
    TAKEN_OVER = LockChange.TAKEN_OVER.value, pgettext_lazy("change of a lock", "taken over")
    EXPIRED = LockChange.EXPIRED.value, _("lease over")
    RELEASED = LockChange.RELEASED.value, pgettext_lazy("change of a lock", "released")
    FORCED = LockChange.FORCED.value, _("released by an operator")


class QueueLock(models.Model):
    """The lock of one queue for one group; a row is written when owner, epoch or state change.

    `expires_at` is a hint: renewals move the end, and are not written.
    """

    group = fields.name(_("group"))
    topic = fields.topic(_("topic"))
    queue = models.PositiveSmallIntegerField(_("queue"))
    owner = fields.client_id(_("owner"), blank=True)
    epoch = models.PositiveBigIntegerField(_("epoch"))
    acquired_at = models.DateTimeField(_("acquired at"))
    expires_at = models.DateTimeField(_("expires at"))
    state = models.CharField(_("state"), max_length=8, choices=State)
    updated_at = models.DateTimeField(_("updated at"))

    class Meta:
        ordering = ["group", "topic", "queue"]
        verbose_name = _("queue lock")
        verbose_name_plural = _("queue locks")
        constraints = [
            models.UniqueConstraint(
                fields=["group", "topic", "queue"], name="lock_once_a_group_and_queue"
            ),
            models.CheckConstraint(condition=Q(state__in=State.values), name="lock_state_is_known"),
            models.CheckConstraint(
                condition=Q(state=State.FREE, owner="") | (~Q(state=State.FREE) & ~Q(owner="")),
                name="lock_has_an_owner_or_is_free",
            ),
        ]

    def __str__(self) -> str:
        """Return group and queue."""
        return _place(self)


class LockTransition(models.Model):
    """A change of a lock's owner. `number` is that of the journal's record, once in a store."""

    store_id = models.CharField(_("store id"), max_length=32)
    number = models.PositiveBigIntegerField(_("number"))
    at = models.DateTimeField(_("time"))
    group = fields.name(_("group"))
    topic = fields.topic(_("topic"))
    queue = models.PositiveSmallIntegerField(_("queue"))
    change = models.CharField(_("change"), max_length=12, choices=Change)
    owner = fields.client_id(_("owner"), blank=True)
    previous_owner = fields.client_id(_("previous owner"), blank=True)
    epoch = models.PositiveBigIntegerField(_("epoch"))
    reason = fields.reason(_("reason"))

    class Meta:
        ordering = ["-id"]
        verbose_name = _("lock transition")
        verbose_name_plural = _("lock transitions")
        constraints = [
            models.UniqueConstraint(
                fields=["store_id", "number"], name="transition_once_a_store_and_number"
            ),
            models.CheckConstraint(
                condition=Q(change__in=Change.values), name="transition_change_is_known"
            ),
        ]
        indexes = [
            models.Index(fields=["group", "topic", "queue", "-id"], name="transition_by_queue"),
            models.Index(fields=["at"], name="transition_by_time"),
        ]

    def __str__(self) -> str:
        """Return queue and change."""
        return f"{_place(self)}: {self.get_change_display()}"


class LockRefusal(models.Model):
    """How often one client was refused a queue's lock in one minute; a row a minute, not a refusal.

    `epoch` is the store's: the broker counts anew after a restart, in the same minute perhaps. An
    empty `client_id` counts several clients together. `owner` had the lock, or was to have it.
    """

    store_id = models.CharField(_("store id"), max_length=32)
    epoch = models.PositiveBigIntegerField(_("epoch"))
    at = models.DateTimeField(_("time"))
    group = fields.name(_("group"))
    topic = fields.topic(_("topic"))
    queue = models.PositiveSmallIntegerField(_("queue"))
    owner = fields.client_id(_("owner"))
    client_id = fields.client_id(_("client id"), blank=True)
    count = models.PositiveBigIntegerField(_("count"))
    last_at = models.DateTimeField(_("last at"))

    class Meta:
        ordering = ["-at", "-id"]
        verbose_name = _("lock refusal")
        verbose_name_plural = _("lock refusals")
        constraints = [
            models.UniqueConstraint(
                fields=["store_id", "epoch", "at", "group", "topic", "queue", "owner", "client_id"],
                name="refusals_once_a_minute_and_client",
            ),
        ]
        indexes = [
            models.Index(fields=["group", "topic", "queue", "-at"], name="refusals_by_queue"),
            models.Index(fields=["at"], name="refusals_by_time"),
        ]

    def __str__(self) -> str:
        """Return queue and client."""
        return f"{_place(self)}: {self.client_id or gettext('others')}"


def _place(row: QueueLock | LockTransition | LockRefusal) -> str:
    """Return group and queue."""
    return gettext("%(group)s in %(topic)s/%(queue)s") % {
        "group": row.group,
        "topic": row.topic,
        "queue": row.queue,
    }
