"""Who reads for groups, what they want, and who got which queue. Rows and constraints.

All are projections: the truth is in the broker, and a row may be a few seconds old.
"""

from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.engine.types import FilterType, MessageModel
from apps.groups.models import fields
from apps.groups.models.settings import StrategyChoice


class Model(models.TextChoices):
    """Whether members share a group's messages, or each gets all of them."""

    CLUSTERING = MessageModel.CLUSTERING.value, _("clustering: members share the messages")
    BROADCASTING = MessageModel.BROADCASTING.value, _("broadcasting: each member gets all messages")


class Filter(models.TextChoices):
    """How the text of a filter is read."""

    TAG = FilterType.TAG.value, _("tags")
    SQL92 = FilterType.SQL92.value, "SQL92"


class Member(models.Model):
    """A client of a group that the engine has seen lately; `last_seen_at` may lag half a minute.

    One that keeps no heartbeat, and so only receives, has no `model`; `strategy` is its wish.
    """

    group = fields.name(_("group"))
    client_id = fields.client_id(_("client id"))
    topics = models.JSONField(_("topics"), default=list)
    first_seen_at = models.DateTimeField(_("first seen at"))
    last_seen_at = models.DateTimeField(_("last seen at"))
    model = models.CharField(_("message model"), max_length=16, choices=Model, blank=True)
    ordered = models.BooleanField(_("ordered"), default=False)
    strategy = models.CharField(_("strategy"), max_length=24, choices=StrategyChoice, blank=True)
    site = models.CharField(_("site"), max_length=255, blank=True)
    generation = models.PositiveBigIntegerField(_("generation"), null=True)
    conflicts = models.JSONField(_("conflicts"), default=list)

    class Meta:
        ordering = ["group", "client_id"]
        verbose_name = _("member")
        verbose_name_plural = _("members")
        constraints = [
            models.UniqueConstraint(fields=["group", "client_id"], name="member_once_a_group"),
            models.CheckConstraint(
                condition=models.Q(model__in=["", *Model.values]), name="member_model_is_known"
            ),
        ]

    def __str__(self) -> str:
        """Return group and client id."""
        return gettext("%(client)s of %(group)s") % {
            "client": self.client_id,
            "group": self.group,
        }


class Subscription(models.Model):
    """What a member wants of a topic.

    `version` counts how often it changed its mind, from 1; `is_conflicting` says that another
    member of the group wants something else of the topic.
    """

    group = fields.name(_("group"))
    client_id = fields.client_id(_("client id"))
    topic = fields.topic(_("topic"))
    filter = models.TextField(_("filter"))
    filter_type = models.CharField(_("kind of filter"), max_length=8, choices=Filter)
    is_conflicting = models.BooleanField(_("conflicting"), default=False)
    version = models.PositiveIntegerField(_("version"), default=1)
    seen_at = models.DateTimeField(_("seen at"))

    class Meta:
        ordering = ["group", "topic", "client_id"]
        verbose_name = _("subscription")
        verbose_name_plural = _("subscriptions")
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
        return gettext("%(client)s of %(group)s on %(topic)s") % {
            "client": self.client_id,
            "group": self.group,
            "topic": self.topic,
        }


class QueueAssignment(models.Model):
    """Which member of a group a queue is assigned to; one at most.

    Members that broadcast have all queues, and no row.
    """

    group = fields.name(_("group"))
    topic = fields.topic(_("topic"))
    queue = models.PositiveSmallIntegerField(_("queue"))
    client_id = fields.client_id(_("client id"))
    generation = models.PositiveBigIntegerField(_("generation"))

    class Meta:
        ordering = ["group", "topic", "queue"]
        verbose_name = _("queue assignment")
        verbose_name_plural = _("queue assignments")
        constraints = [
            models.UniqueConstraint(
                fields=["group", "topic", "queue"], name="assignment_once_a_group_and_queue"
            ),
        ]

    def __str__(self) -> str:
        """Return queue and member."""
        return gettext("%(queue)s of %(group)s to %(client)s") % {
            "queue": f"{self.topic}/{self.queue}",
            "group": self.group,
            "client": self.client_id,
        }


class Rebalance(models.Model):
    """A new assignment of a group: when, why, who got what, and how many queues moved.

    `number` is that of the journal's record, once in a store.
    """

    store_id = models.CharField(_("store id"), max_length=32)
    number = models.PositiveBigIntegerField(_("number"))
    at = models.DateTimeField(_("time"))
    group = fields.name(_("group"))
    generation = models.PositiveBigIntegerField(_("generation"))
    reason = fields.reason(_("reason"))
    strategy = models.CharField(_("strategy"), max_length=24, choices=StrategyChoice)
    assignment = models.JSONField(_("assignment"))
    queues_moved = models.PositiveIntegerField(_("queues moved"))

    class Meta:
        ordering = ["-id"]
        verbose_name = _("rebalance")
        verbose_name_plural = _("rebalances")
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
        return gettext("%(group)s, generation %(generation)s") % {
            "group": self.group,
            "generation": self.generation,
        }
