"""What jobs found about lateness, retries, dead letters and rebalances.

Columns are those of the table of `apps.pipelines.tables` that names the model.
"""

from django.db import models

from apps.groups.models import fields
from apps.pipelines.models.results import result
from apps.pipelines.models.results.result import Result


class DelayStat(Result):
    """How punctual delayed messages were."""

    topic = fields.topic()
    delay_level = models.IntegerField()
    messages = models.BigIntegerField()
    early = models.BigIntegerField()
    cancelled = models.BigIntegerField()
    p50_ms = models.FloatField(null=True)
    p99_ms = models.FloatField(null=True)
    max_ms = models.FloatField(null=True)
    stored_p99_ms = models.FloatField(null=True)

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "delay_level"], name="delays_once_a_run"
            ),
        ]


class LatenessBar(Result):
    """A histogram of how late delayed messages were."""

    topic = fields.topic()
    delay_level = models.IntegerField()
    from_ms = models.FloatField()
    to_ms = models.FloatField(null=True)
    messages = models.BigIntegerField()

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "delay_level", "from_ms"], name="lateness_once_a_run"
            ),
        ]


class RetryStat(Result):
    """How many attempts messages of a group took, and how they ended."""

    topic = fields.topic()
    group = result.group()
    attempts = models.IntegerField()
    final = result.text()
    messages = models.BigIntegerField()
    p50_s = models.FloatField(null=True)
    p99_s = models.FloatField(null=True)

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "group", "attempts", "final"], name="retries_once_a_run"
            ),
        ]


class DeadCause(Result):
    """Why messages of a group failed or died."""

    topic = fields.topic()
    group = result.group()
    error_class = result.text()
    failures = models.BigIntegerField()
    messages = models.BigIntegerField()
    dead = models.BigIntegerField()
    is_poison = models.BooleanField()

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "group", "error_class"], name="dead_causes_once_a_run"
            ),
        ]


class RebalanceHour(Result):
    """How often queues of a group changed hands, hour by hour."""

    group = result.group()
    hour = models.DateTimeField()
    rebalances = models.BigIntegerField()
    queues_moved = models.BigIntegerField()
    most_a_minute = models.BigIntegerField()
    is_storm = models.BooleanField()
    without_owner_s = models.FloatField(null=True)
    top_reason = result.text()

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(fields=["run", "group", "hour"], name="rebalances_once_a_run"),
        ]
