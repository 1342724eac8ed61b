"""Who reads for groups, what they want, and who got which queue. Rows and constraints.

All are projections: the truth is in the broker, and a row may be a few seconds old.
"""

from django.db import models

from apps.engine.types import FilterType, MessageModel
from apps.groups.models import fields
from apps.groups.models.settings import StrategyChoice


class Model(models.TextChoices):
    """Whether members share a group's messages, or each gets all of them."""

    CLUSTERING = MessageModel.CLUSTERING.value
    BROADCASTING = MessageModel.BROADCASTING.value


class Filter(models.TextChoices):
    """How the text of a filter is read."""

    TAG = FilterType.TAG.value
    SQL92 = FilterType.SQL92.value


class Member(models.Model):
    """A client of a group that the engine has seen lately; `last_seen_at` may lag half a minute.

    One that keeps no heartbeat, and so only receives, has no `model`; `strategy` is its wish.
    """

    group = fields.name()
    client_id = fields.client_id()
    topics = models.JSONField(default=list)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    model = models.CharField(max_length=16, choices=Model, blank=True)
    ordered = models.BooleanField(default=False)
    strategy = models.CharField(max_length=24, choices=StrategyChoice, blank=True)
    site = models.CharField(max_length=255, blank=True)
    generation = models.PositiveBigIntegerField(null=True)
    conflicts = models.JSONField(default=list)

    class Meta:
        ordering = ["group", "client_id"]
        constraints = [
            models.UniqueConstraint(fields=["group", "client_id"], name="member_once_a_group"),
            models.CheckConstraint(
                condition=models.Q(model__in=["", *Model.values]), name="member_model_is_known"
            ),
        ]

    def __str__(self) -> str:
        """Return group and client id."""
        return f"{self.client_id} of {self.group}"


class Subscription(models.Model):
    """What a member wants of a topic.

    `version` counts how often it changed its mind, from 1; `is_conflicting` says that another
    member of the group wants something else of the topic.
    """

    group = fields.name()
    client_id = fields.client_id()
    topic = fields.topic()
    filter = models.TextField()
    filter_type = models.CharField(max_length=8, choices=Filter)
    is_conflicting = models.BooleanField(default=False)
    version = models.PositiveIntegerField(default=1)
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ["group", "topic", "client_id"]
        constraints = [
            models.UniqueConstraint(
                fields=["group", "client_id", "topic"], name="subscription_once_a_member_and_topic"
            ),
            models.CheckConstraint(
                condition=models.Q(filter_type__in=Filter.values),
                name="subscription_filter_type_is_known",
            ),
        ]

    def __str__(self) -> str:
        """Return who wants which topic."""
        return f"{self.client_id} of {self.group} on {self.topic}"


class QueueAssignment(models.Model):
    """Which member of a group a queue is assigned to; one at most.

    Members that broadcast have all queues, and no row.
    """

    group = fields.name()
    topic = fields.topic()
    queue = models.PositiveSmallIntegerField()
    client_id = fields.client_id()
    generation = models.PositiveBigIntegerField()

    class Meta:
        ordering = ["group", "topic", "queue"]
        constraints = [
            models.UniqueConstraint(
                fields=["group", "topic", "queue"], name="assignment_once_a_group_and_queue"
            ),
        ]

    def __str__(self) -> str:
        """Return queue and member."""
        return f"{self.topic}/{self.queue} of {self.group} to {self.client_id}"


class Rebalance(models.Model):
    """A new assignment of a group: when, why, who got what, and how many queues moved.

    `number` is that of the journal's record, once in a store.
    """

    store_id = models.CharField(max_length=32)
    number = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    group = fields.name()
    generation = models.PositiveBigIntegerField()
    reason = fields.reason()
    strategy = models.CharField(max_length=24, choices=StrategyChoice)
    assignment = models.JSONField()
    queues_moved = models.PositiveIntegerField()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["store_id", "number"], name="rebalance_once_a_store_and_number"
            ),
        ]
        indexes = [
            models.Index(fields=["group", "-id"], name="rebalance_by_group"),
            models.Index(fields=["at"], name="rebalance_by_time"),
        ]

    def __str__(self) -> str:
        """Return group and generation."""
        return f"{self.group}, generation {self.generation}"
