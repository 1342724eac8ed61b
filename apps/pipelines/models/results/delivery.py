"""What jobs found about lateness, retries, dead letters and rebalances.

Columns are those of the table of `apps.pipelines.tables` that names the model.
"""

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.groups.models import fields
from apps.pipelines.models.results import result
from apps.pipelines.models.results.result import Result


class DelayStat(Result):
    """How punctual delayed messages were."""

    topic = fields.topic(_("topic"))
    delay_level = models.IntegerField(_("delay level"))
    messages = models.BigIntegerField(_("messages"))
    early = models.BigIntegerField(_("messages too early"))
    cancelled = models.BigIntegerField(_("messages cancelled"))
    p50_ms = models.FloatField(_("median (ms)"), null=True)
    p99_ms = models.FloatField(_("99th percentile (ms)"), null=True)
    max_ms = models.FloatField(_("longest (ms)"), null=True)
    stored_p99_ms = models.FloatField(_("stored, 99th percentile (ms)"), null=True)

    class Meta(Result.Meta):
        verbose_name = _("punctuality of delays")
        verbose_name_plural = _("punctuality of delays")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "delay_level"], name="delays_once_a_run"
            ),
        ]


class LatenessBar(Result):
    """A histogram of how late delayed messages were."""

    topic = fields.topic(_("topic"))
    delay_level = models.IntegerField(_("delay level"))
    from_ms = models.FloatField(_("from (ms)"))
    to_ms = models.FloatField(_("to (ms)"), null=True)
    messages = models.BigIntegerField(_("messages"))

    class Meta(Result.Meta):
        verbose_name = _("bar of lateness")
        verbose_name_plural = _("bars of lateness")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "delay_level", "from_ms"], name="lateness_once_a_run"
            ),
        ]


class RetryStat(Result):
    """How many attempts messages of a group took, and how they ended."""

    topic = fields.topic(_("topic"))
    group = result.group(_("group"))
    attempts = models.IntegerField(_("attempts"))
    final = result.text(_("how it ended"))
    messages = models.BigIntegerField(_("messages"))
    p50_s = models.FloatField(_("median (s)"), null=True)
    p99_s = models.FloatField(_("99th percentile (s)"), null=True)

    class Meta(Result.Meta):
        verbose_name = _("retry figures")
        verbose_name_plural = _("retry figures")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "group", "attempts", "final"], name="retries_once_a_run"
            ),
        ]


class DeadCause(Result):
    """Why messages of a group failed or died."""

    topic = fields.topic(_("topic"))
    group = result.group(_("group"))
    error_class = result.text(_("class of the error"))
    failures = models.BigIntegerField(_("failures"))
    messages = models.BigIntegerField(_("messages"))
    dead = models.BigIntegerField(_("messages that died"))
    is_poison = models.BooleanField(_("poison"))

    class Meta(Result.Meta):
        verbose_name = _("cause of dead letters")
        verbose_name_plural = _("causes of dead letters")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "group", "error_class"], name="dead_causes_once_a_run"
            ),
        ]


class RebalanceHour(Result):
    """How often queues of a group changed hands, hour by hour."""

    group = result.group(_("group"))
    hour = models.DateTimeField(_("hour"))
    rebalances = models.BigIntegerField(_("rebalances"))
    queues_moved = models.BigIntegerField(_("queues moved"))
    most_a_minute = models.BigIntegerField(_("most in a minute"))
    is_storm = models.BooleanField(_("storm"))
    without_owner_s = models.FloatField(_("without an owner (s)"), null=True)
    top_reason = result.text(_("most frequent reason"))

    class Meta(Result.Meta):
        verbose_name = _("hour of rebalances")
        verbose_name_plural = _("hours of rebalances")
        constraints = [
            models.UniqueConstraint(fields=["run", "group", "hour"], name="rebalances_once_a_run"),
        ]
