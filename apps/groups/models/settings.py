"""What operators decide about groups. Rows and constraints."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.engine import limits
from apps.engine.failuretypes import RetryPolicy
from apps.engine.litetypes import LiteModel
from apps.engine.types import ConsumeFrom, Strategy
from apps.groups.decisions import ACCESS_LOCK_MS_MAX, INNER_STRATEGIES, RETRY_MAX_MAX
from apps.topics.models import NAME_REGEX


class StrategyChoice(models.TextChoices):
    """How queues are shared out among members."""

    AVG = Strategy.AVG.value, _("averagely")
    AVG_BY_CIRCLE = Strategy.AVG_BY_CIRCLE.value, _("averagely, by circle")
    CONFIG = Strategy.CONFIG.value, _("by the fixed list")
    MACHINE_ROOM = Strategy.MACHINE_ROOM.value, _("by machine room")
    MACHINE_ROOM_NEARBY = Strategy.MACHINE_ROOM_NEARBY.value, _("nearby machine room first")
    CONSISTENT_HASH = Strategy.CONSISTENT_HASH.value, _("by consistent hash")


class Begin(models.TextChoices):
    """Where a group begins in a queue it has no progress in."""

    FIRST = ConsumeFrom.FIRST.value, _("the first message")
    LAST = ConsumeFrom.LAST.value, _("the end")
    TIMESTAMP = ConsumeFrom.TIMESTAMP.value, _("a moment")


class Retry(models.TextChoices):
    """How long a failed message waits before it comes again."""

    LEVELS = RetryPolicy.LEVELS.value, _("by delay levels, from level 3 on")
    EXPONENTIAL = RetryPolicy.EXPONENTIAL.value, _("5 s, doubled each time, 2 h at most")
    CUSTOM = RetryPolicy.CUSTOM.value, _("by the list of delays")


class LiteModelChoice(models.TextChoices):
    """How the clients of a group share lite topics that several of them subscribe to."""

    SHARED = LiteModel.SHARED.value, pgettext_lazy("subscriptions of lite topics", "shared")
    EXCLUSIVE = (
        LiteModel.EXCLUSIVE.value,
        pgettext_lazy("subscriptions of lite topics", "the newest subscriber alone"),
    )


class ConsumerGroup(models.Model):
    """A group. One that nobody decided about is there too, with the defaults, to be edited.

    `decided_at` is when somebody last did; without it the engine is not told of the group.
    """

    name = models.CharField(
        _("name"), max_length=limits.NAME_CHARACTERS_MAX, unique=True, db_collation="C"
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    ordered = models.BooleanField(
        _("ordered"),
        default=False,
        help_text=_("Whoever pulls or commits for the group must hold the queue's lock."),
    )
    strategy = models.CharField(
        _("strategy"),
        max_length=24,
        choices=StrategyChoice,
        blank=True,
        help_text=_("Empty follows the members."),
    )
    fixed = models.JSONField(
        _("fixed list"),
        default=dict,
        blank=True,
        help_text=_("Queue numbers by topic by client id."),
    )
    rooms = models.JSONField(
        _("machine rooms"),
        default=list,
        blank=True,
        help_text=_("Machine rooms whose queues are shared out."),
    )
    inner = models.CharField(_("inside a room"),
        max_length=24, choices=StrategyChoice, default=StrategyChoice.AVG,
        help_text=_("What is done inside a machine room."),
    )  # fmt: skip
    consume_from = models.CharField(
        _("begins at"), max_length=12, choices=Begin, default=Begin.FIRST
    )
    consume_from_at = models.DateTimeField(_("begins at the moment"), null=True, blank=True)
    retry_max = models.PositiveIntegerField(
        _("retries, at most"),
        null=True,
        blank=True,
        help_text=_("Empty is 16; without limit where ordered."),
    )
    retry_policy = models.CharField(
        _("retry policy"), max_length=16, choices=Retry, default=Retry.LEVELS
    )
    retry_delays_ms = models.JSONField(_("retry delays (ms)"),
        default=list, blank=True,
        help_text=_("For the list of delays: milliseconds, one a failure; the last one repeats."),
    )  # fmt: skip
    access_lock_ms = models.PositiveIntegerField(_("access lock (ms)"),
        null=True, blank=True,
        help_text=_("How long a new owner of a queue waits for the old one; empty is not at all."),
    )  # fmt: skip
    lite_model = models.CharField(_("subscriptions of lite topics"),
        max_length=16, choices=LiteModelChoice, default=LiteModelChoice.SHARED,
        help_text=_("Whether several clients may subscribe to one lite topic."),
    )  # fmt: skip
    decided_at = models.DateTimeField(_("decided at"), null=True, editable=False)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated at"), auto_now=True)

    class Meta:
        ordering = ["name"]
        verbose_name = _("consumer group")
        verbose_name_plural = _("consumer groups")
        constraints = [
            models.CheckConstraint(condition=Q(name__regex=NAME_REGEX), name="group_name_is_valid"),
            models.CheckConstraint(
                condition=Q(strategy__in=["", *StrategyChoice.values]),
                name="group_strategy_is_known",
            ),
            models.CheckConstraint(
                condition=Q(inner__in=[inner.value for inner in INNER_STRATEGIES]),
                name="group_inner_strategy_is_known",
            ),
            models.CheckConstraint(
                condition=Q(consume_from__in=Begin.values), name="group_consume_from_is_known"
            ),
            models.CheckConstraint(
                condition=~Q(consume_from=Begin.TIMESTAMP) | Q(consume_from_at__isnull=False),
                name="group_timestamp_has_a_moment",
            ),
            models.CheckConstraint(
                condition=Q(retry_max=None) | Q(retry_max__lte=RETRY_MAX_MAX),
                name="group_retry_max_in_range",
            ),
            models.CheckConstraint(
                condition=Q(retry_policy__in=Retry.values), name="group_retry_policy_is_known"
            ),
            models.CheckConstraint(
                condition=Q(retry_policy=Retry.CUSTOM) ^ Q(retry_delays_ms=[]),
                name="group_retry_delays_go_with_custom",
            ),
            models.CheckConstraint(
                condition=Q(access_lock_ms=None)
                | Q(access_lock_ms__gte=1, access_lock_ms__lte=ACCESS_LOCK_MS_MAX),
                name="group_access_lock_ms_in_range",
            ),
            models.CheckConstraint(
                condition=Q(lite_model__in=LiteModelChoice.values),
                name="group_lite_model_is_known",
            ),
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name
