"""What jobs found about lost, repeated and disordered messages, and about their own tables.

Columns are those of the table of `apps.pipelines.tables` that names the model.
"""

from django.db import models

from apps.groups.models import fields
from apps.pipelines.models.results import result
from apps.pipelines.models.results.result import Result


class Loss(Result):
    """Numbers of a producer that no message of its queue has."""

    topic = fields.topic()
    queue = models.IntegerField()
    producer = result.text()
    epoch = models.BigIntegerField()
    first_seq = models.BigIntegerField()
    last_seq = models.BigIntegerField()
    missing = models.BigIntegerField()
    next_offset = models.BigIntegerField()
    found_at = models.DateTimeField()

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "queue", "producer", "epoch", "first_seq"],
                name="loss_once_a_run",
            ),
        ]


class LossTotal(Result):
    """What was looked at for losses and repeats, queue by queue: the matrix."""

    topic = fields.topic()
    queue = models.IntegerField()
    messages = models.BigIntegerField()
    numbered = models.BigIntegerField()
    producers = models.BigIntegerField()
    gaps = models.BigIntegerField()
    missing = models.BigIntegerField()
    recovered = models.BigIntegerField()
    stored_twice = models.BigIntegerField()
    consumed_twice = models.BigIntegerField()

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "queue"], name="loss_totals_once_a_run"
            ),
        ]


class DuplicateTotal(Result):
    """Duplicates by topic, group and cause."""

    topic = fields.topic()
    group = result.group()
    kind = result.text()
    cause = result.text()
    messages = models.BigIntegerField()
    extra = models.BigIntegerField()

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "group", "kind", "cause"],
                name="duplicate_totals_once_a_run",
            ),
        ]


class Disorder(Result):
    """Places where the order of a sharding key or of a queue did not hold."""

    topic = fields.topic()
    group = result.group()
    kind = result.text()
    sharding_key = result.text()
    queue = models.IntegerField()
    other_queue = models.IntegerField(null=True)
    queue_offset = models.BigIntegerField()
    other_offset = models.BigIntegerField(null=True)
    client = result.text()
    other_client = result.text(null=True)
    at = models.DateTimeField()
    pattern = result.text()
    times = models.BigIntegerField()
    in_all = models.BigIntegerField()

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "group", "kind", "sharding_key", "queue", "queue_offset"],
                name="disorder_once_a_run",
            ),
        ]


class QualityResult(Result):
    """Rules that data must keep, and whether it did."""

    table_name = result.text()
    rule = result.text()
    topic = fields.topic()
    severity = result.text()
    value = models.FloatField(null=True)
    limit = models.FloatField(null=True)
    is_kept = models.BooleanField()

    class Meta(Result.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["run", "table_name", "rule", "topic"], name="quality_once_a_run"
            ),
        ]
