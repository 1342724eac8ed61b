"""What jobs found about lost, repeated and disordered messages, and about their own tables.

Columns are those of the table of `apps.pipelines.tables` that names the model.
"""

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.groups.models import fields
from apps.pipelines.models.results import result
from apps.pipelines.models.results.result import Result


class Loss(Result):
    """Numbers of a producer that no message of its queue has."""

    topic = fields.topic(_("topic"))
    queue = models.IntegerField(_("queue"))
    producer = result.text(_("producer"))
    epoch = models.BigIntegerField(_("epoch"))
    first_seq = models.BigIntegerField(_("first sequence number"))
    last_seq = models.BigIntegerField(_("last sequence number"))
    missing = models.BigIntegerField(_("messages missing"))
    next_offset = models.BigIntegerField(_("next offset"))
    found_at = models.DateTimeField(_("found at"))

    class Meta(Result.Meta):
        verbose_name = _("loss")
        verbose_name_plural = _("losses")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "queue", "producer", "epoch", "first_seq"],
                name="loss_once_a_run",
            ),
        ]


class LossTotal(Result):
    """What was looked at for losses and repeats, queue by queue: the matrix."""

    topic = fields.topic(_("topic"))
    queue = models.IntegerField(_("queue"))
    messages = models.BigIntegerField(_("messages"))
    numbered = models.BigIntegerField(_("messages with a number"))
    producers = models.BigIntegerField(_("producers"))
    gaps = models.BigIntegerField(_("gaps"))
    missing = models.BigIntegerField(_("messages missing"))
    recovered = models.BigIntegerField(_("messages recovered"))
    stored_twice = models.BigIntegerField(_("stored twice"))
    consumed_twice = models.BigIntegerField(_("consumed twice"))

    class Meta(Result.Meta):
        verbose_name = _("loss total")
        verbose_name_plural = _("loss totals")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "queue"], name="loss_totals_once_a_run"
            ),
        ]


class DuplicateTotal(Result):
    """Duplicates by topic, group and cause."""

    topic = fields.topic(_("topic"))
    group = result.group(_("group"))
    kind = result.text(_("kind"))
    cause = result.text(_("cause"))
    messages = models.BigIntegerField(_("messages"))
    extra = models.BigIntegerField(_("extra copies"))

    class Meta(Result.Meta):
        verbose_name = _("duplicate total")
        verbose_name_plural = _("duplicate totals")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "group", "kind", "cause"],
                name="duplicate_totals_once_a_run",
            ),
        ]


class Disorder(Result):
    """Places where the order of a sharding key or of a queue did not hold."""

    topic = fields.topic(_("topic"))
    group = result.group(_("group"))
    kind = result.text(_("kind"))
    sharding_key = result.text(_("sharding key"))
    queue = models.IntegerField(_("queue"))
    other_queue = models.IntegerField(_("other queue"), null=True)
    queue_offset = models.BigIntegerField(_("queue offset"))
    other_offset = models.BigIntegerField(_("other offset"), null=True)
    client = result.text(_("client"))
    other_client = result.text(_("other client"), null=True)
    at = models.DateTimeField(_("time"))
    pattern = result.text(_("pattern"))
    times = models.BigIntegerField(_("times"))
    in_all = models.BigIntegerField(_("places in all"))

    class Meta(Result.Meta):
        verbose_name = _("disorder")
        verbose_name_plural = _("disorders")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "group", "kind", "sharding_key", "queue", "queue_offset"],
                name="disorder_once_a_run",
            ),
        ]


class QualityResult(Result):
    """Rules that data must keep, and whether it did."""

    table_name = result.text(_("table"))
    rule = result.text(_("rule"))
    topic = fields.topic(_("topic"))
    severity = result.text(_("severity"))
    value = models.FloatField(_("value"), null=True)
    limit = models.FloatField(_("limit"), null=True)
    is_kept = models.BooleanField(_("kept"))

    class Meta(Result.Meta):
        verbose_name = _("quality result")
        verbose_name_plural = _("quality results")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "table_name", "rule", "topic"], name="quality_once_a_run"
            ),
        ]
