"""What operators decide about groups. Rows and constraints."""

from django.db import models
from django.db.models import Q

from apps.engine import limits
from apps.engine.failuretypes import RetryPolicy
from apps.engine.types import ConsumeFrom, Strategy
from apps.groups.decisions import ACCESS_LOCK_MS_MAX, INNER_STRATEGIES, RETRY_MAX_MAX
from apps.topics.models import NAME_REGEX


class StrategyChoice(models.TextChoices):
    """How queues are shared out among members."""

    AVG = Strategy.AVG.value, "averagely"
    AVG_BY_CIRCLE = Strategy.AVG_BY_CIRCLE.value, "averagely, by circle"
    CONFIG = Strategy.CONFIG.value, "by the fixed list"
    MACHINE_ROOM = Strategy.MACHINE_ROOM.value, "by machine room"
    MACHINE_ROOM_NEARBY = Strategy.MACHINE_ROOM_NEARBY.value, "nearby machine room first"
    CONSISTENT_HASH = Strategy.CONSISTENT_HASH.value, "by consistent hash"


class Begin(models.TextChoices):
    """Where a group begins in a queue it has no progress in."""

    FIRST = ConsumeFrom.FIRST.value, "the first message"
    LAST = ConsumeFrom.LAST.value, "the end"
    TIMESTAMP = ConsumeFrom.TIMESTAMP.value, "a moment"


class Retry(models.TextChoices):
    """How long a failed message waits before it comes again."""

    LEVELS = RetryPolicy.LEVELS.value, "by delay levels, from level 3 on"
    EXPONENTIAL = RetryPolicy.EXPONENTIAL.value, "5 s, doubled each time, 2 h at most"
    CUSTOM = RetryPolicy.CUSTOM.value, "by the list of delays"


class ConsumerGroup(models.Model):
    """A group. One that nobody decided about is there too, with the defaults, to be edited.

    `decided_at` is when somebody last did; without it the engine is not told of the group.
    """

    name = models.CharField(max_length=limits.NAME_CHARACTERS_MAX, unique=True, db_collation="C")
    enabled = models.BooleanField(default=True)
    ordered = models.BooleanField(
        default=False,
        help_text="Whoever pulls or commits for the group must hold the queue's lock.",
    )
    strategy = models.CharField(
        max_length=24, choices=StrategyChoice, blank=True, help_text="Empty follows the members."
    )
    fixed = models.JSONField(
        default=dict, blank=True, help_text="Queue numbers by topic by client id."
    )
    rooms = models.JSONField(
        default=list, blank=True, help_text="Machine rooms whose queues are shared out."
    )
    inner = models.CharField(
        max_length=24, choices=StrategyChoice, default=StrategyChoice.AVG,
        help_text="What is done inside a machine room.",
    )  # fmt: skip
    consume_from = models.CharField(max_length=12, choices=Begin, default=Begin.FIRST)
    consume_from_at = models.DateTimeField(null=True, blank=True)
    retry_max = models.PositiveIntegerField(
        null=True, blank=True, help_text="Empty is 16; without limit where ordered."
    )
    retry_policy = models.CharField(max_length=16, choices=Retry, default=Retry.LEVELS)
    retry_delays_ms = models.JSONField(
        default=list, blank=True,
        help_text="For the list of delays: milliseconds, one a failure; the last one repeats.",
    )  # fmt: skip
    access_lock_ms = models.PositiveIntegerField(
        null=True, blank=True,
        help_text="How long a new owner of a queue waits for the old one; empty is not at all.",
    )  # fmt: skip
    decided_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
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
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name
