"""What jobs found about where load is, how fast it comes and how far groups are behind.

Columns are those of the table of `apps.pipelines.tables` that names the model.
"""

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.groups.models import fields
from apps.pipelines.models.results import result
from apps.pipelines.models.results.result import Result


class QueueShare(Result):
    """How the load of a topic is shared by its queues."""

    topic = fields.topic(_("topic"))
    queue = models.IntegerField(_("queue"))
    messages = models.BigIntegerField(_("messages"))
    bytes = models.BigIntegerField(_("bytes"))
    share = models.FloatField(_("share"))
    share_if_rehashed = models.FloatField(_("share with a good hash"), null=True)
    gini = models.FloatField(_("Gini coefficient"))
    max_to_mean = models.FloatField(_("maximum to mean"))

    class Meta(Result.Meta):
        verbose_name = _("queue share")
        verbose_name_plural = _("queue shares")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "queue"], name="queue_shares_once_a_run"
            ),
        ]


class HotKey(Result):
    """The keys that most messages have."""

    topic = fields.topic(_("topic"))
    key_kind = result.text(_("kind of key"))
    key = result.text(_("key"))
    rank = models.IntegerField(_("rank"))
    messages = models.BigIntegerField(_("messages"))
    bytes = models.BigIntegerField(_("bytes"))
    share = models.FloatField(_("share"))
    queues = models.IntegerField(_("queues"))

    class Meta(Result.Meta):
        verbose_name = _("hot key")
        verbose_name_plural = _("hot keys")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "key_kind", "rank"], name="hot_keys_once_a_run"
            ),
        ]


class RateMinute(Result):
    """Messages a minute, sent and worked on."""

    topic = fields.topic(_("topic"))
    group = result.group(_("group"))
    minute = models.DateTimeField(_("minute"))
    messages = models.BigIntegerField(_("messages"))
    failures = models.BigIntegerField(_("failures"))
    bytes = models.BigIntegerField(_("bytes"))
    mean_ms = models.FloatField(_("mean (ms)"), null=True)

    class Meta(Result.Meta):
        verbose_name = _("rate by the minute")
        verbose_name_plural = _("rates by the minute")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "topic", "group", "minute"], name="rates_once_a_run"
            ),
        ]


class BacklogPoint(Result):
    """A group's backlog in a topic, why, and when it will be gone."""

    group = result.group(_("group"))
    topic = fields.topic(_("topic"))
    at = models.DateTimeField(_("time"))
    lag = models.BigIntegerField(_("lag"), null=True)
    trend_per_s = models.FloatField(_("trend (a second)"), null=True)
    send_rate = models.FloatField(_("sent a second"), null=True)
    consume_rate = models.FloatField(_("consumed a second"), null=True)
    drain_s = models.FloatField(_("drained in (s)"), null=True)
    cause = result.text(_("cause"))

    class Meta(Result.Meta):
        verbose_name = _("backlog")
        verbose_name_plural = _("backlogs")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "group", "topic", "at"], name="backlog_once_a_run"
            ),
        ]
