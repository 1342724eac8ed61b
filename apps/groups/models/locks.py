"""Locks of queues and how they went from hand to hand. Rows and constraints.

Projections: the truth is the broker's lock table and its journal.
"""

from django.db import models
from django.db.models import Q

from apps.engine.grouptypes import LockChange
from apps.groups.models import fields


class State(models.TextChoices):
    """How a lock was found when its row was written."""

    HELD = "held"
    EXPIRED = "expired"
    FREE = "free"


class Change(models.TextChoices):
    """Why a line of a lock's history was written."""

    ACQUIRED = LockChange.ACQUIRED.value
    TAKEN_OVER = LockChange.TAKEN_OVER.value, "taken over"
    RELEASED = LockChange.RELEASED.value
    FORCED = LockChange.FORCED.value, "released by an operator"


class QueueLock(models.Model):
    """The lock of one queue for one group; a row is written when owner, epoch or state change.

    `expires_at` is a hint: renewals move the end, and are not written.
    """

    group = fields.name()
    topic = fields.topic()
    queue = models.PositiveSmallIntegerField()
    owner = fields.client_id(blank=True)
    epoch = models.PositiveBigIntegerField()
    acquired_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    state = models.CharField(max_length=8, choices=State)
    updated_at = models.DateTimeField()

    class Meta:
        ordering = ["group", "topic", "queue"]
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
        return f"{self.group} in {self.topic}/{self.queue}"


class LockTransition(models.Model):
    """A change of a lock's owner. `number` is that of the journal's record, once in a store."""

    store_id = models.CharField(max_length=32)
    number = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    group = fields.name()
    topic = fields.topic()
    queue = models.PositiveSmallIntegerField()
    change = models.CharField(max_length=12, choices=Change)
    owner = fields.client_id(blank=True)
    previous_owner = fields.client_id(blank=True)
    epoch = models.PositiveBigIntegerField()
    reason = fields.reason()

    class Meta:
        ordering = ["-id"]
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
        return f"{self.group} in {self.topic}/{self.queue}: {self.change}"
