"""What jobs found about where load is, how fast it comes and how far groups are behind.

Columns are those of the table of `apps.pipelines.tables` that names the model.
"""

from django.db import models

from apps.groups.models import fields
from apps.pipelines.models.results import result
from apps.pipelines.models.results.result import Result


class QueueShare(Result):
    """How the load of a topic is shared by its queues."""

    topic = fields.topic()
    queue = models.IntegerField()
    messages = models.BigIntegerField()
    bytes = models.BigIntegerField()
    share = models.FloatField()
    share_if_rehashed = models.FloatField(null=True)
    gini = models.FloatField()
    max_to_mean = models.FloatField()

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "queue"], name="queue_shares_once_a_run"
            ),
        ]


class HotKey(Result):
    """The keys that most messages have."""

    topic = fields.topic()
    key_kind = result.text()
    key = result.text()
    rank = models.IntegerField()
    messages = models.BigIntegerField()
    bytes = models.BigIntegerField()
    share = models.FloatField()
    queues = models.IntegerField()

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "key_kind", "rank"], name="hot_keys_once_a_run"
            ),
        ]


class RateMinute(Result):
    """Messages a minute, sent and worked on."""

    topic = fields.topic()
    group = result.group()
    minute = models.DateTimeField()
    messages = models.BigIntegerField()
    failures = models.BigIntegerField()
    bytes = models.BigIntegerField()
    mean_ms = models.FloatField(null=True)

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "group", "minute"], name="rates_once_a_run"
            ),
        ]


class BacklogPoint(Result):
    """A group's backlog in a topic, why, and when it will be gone."""

    group = result.group()
    topic = fields.topic()
    at = models.DateTimeField()
    lag = models.BigIntegerField(null=True)
    trend_per_s = models.FloatField(null=True)
    send_rate = models.FloatField(null=True)
    consume_rate = models.FloatField(null=True)
    drain_s = models.FloatField(null=True)
    cause = result.text()

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "group", "topic", "at"], name="backlog_once_a_run"
            ),
        ]
