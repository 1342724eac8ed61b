"""Samples of topics, groups and the whole store, fine and rolled up. Rows and constraints only.

A row covers one slot (`apps.metrics.resolutions`). NULL is unknown, never 0.

A count `x` has three columns: `x` at the end of the slot, the lowest `x_min` and the highest
`x_max` within it. A look is a count that not every sample knows, since asking for it costs the
engine more; `x` is the newest known one then. A rate `y` has four: the mean `y`, `y_min`, `y_max`,
and of how many samples it is known, `y_samples`.
"""

from typing import TYPE_CHECKING, ClassVar

from django.db import models
from django.db.models import Q
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.engine import limits
from apps.engine.codec.layout import RETRY_PREFIX
from apps.metrics.resolutions import RESOLUTIONS

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise

    _Count = models.PositiveBigIntegerField[int | None, int | None]
    _Rate = models.FloatField[float | None, float | None]


def _counts(verbose_name: "StrPromise") -> "tuple[_Count, _Count, _Count]":
    """Return a count's columns: at the end of the slot, the lowest and the highest."""
    last, lowest, highest = (
        models.PositiveBigIntegerField(name, null=True) for name in _names(verbose_name)
    )
    return last, lowest, highest


def _rates(verbose_name: "StrPromise") -> "tuple[_Rate, _Rate, _Rate]":
    """Return a rate's columns: the mean, the lowest and the highest."""
    mean, lowest, highest = (models.FloatField(name, null=True) for name in _names(verbose_name))
    return mean, lowest, highest


def _names(verbose_name: "StrPromise") -> "tuple[StrPromise, StrPromise, StrPromise]":
    return (
        verbose_name,
        format_lazy(_("{measure}, lowest"), measure=verbose_name),
        format_lazy(_("{measure}, highest"), measure=verbose_name),
    )


def _rate_samples(verbose_name: "StrPromise") -> "models.PositiveSmallIntegerField[int, int]":
    name = format_lazy(_("{measure}, samples"), measure=verbose_name)
    return models.PositiveSmallIntegerField(name, default=0)


def _name(verbose_name: "StrPromise") -> "models.CharField[str, str]":
    return models.CharField(verbose_name, max_length=limits.NAME_CHARACTERS_MAX, db_collation="C")


class Sample(models.Model):
    """What all rows have: their slot, and how many samples of the finest kind went in."""

    keys: ClassVar[tuple[str, ...]] = ()
    """Columns that tell rows of one slot apart."""
    counts: ClassVar[tuple[str, ...]] = ()
    looks: ClassVar[tuple[str, ...]] = ()
    rates: ClassVar[tuple[str, ...]] = ()
    marks: ClassVar[tuple[str, ...]] = ()
    """Columns of which a roll-up keeps the newest and nothing else."""

    resolution_s = models.PositiveSmallIntegerField(_("resolution (s)"))
    at = models.DateTimeField(_("time"))
    samples = models.PositiveSmallIntegerField(_("samples"))

    class Meta:
        abstract = True
        # The newest first, by the one index that no filter of the admin gets in the way of.
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(resolution_s__in=[found.seconds for found in RESOLUTIONS]),
                name="%(class)s_resolution_is_known",
            ),
            models.CheckConstraint(condition=Q(samples__gte=1), name="%(class)s_has_samples"),
        ]


class TopicMeasures(models.Model):
    """What is measured of a topic, over all its queues."""

    sent, sent_min, sent_max = _counts(_("messages sent"))
    held, held_min, held_max = _counts(_("messages held"))
    send_rate, send_rate_min, send_rate_max = _rates(_("sent a second"))
    send_rate_samples = _rate_samples(_("sent a second"))

    class Meta:
        abstract = True


class GroupMeasures(models.Model):
    """What is measured of a group, over all queues it has progress in.

    `oldest_age_ms` is the age of the oldest message not committed, 0 without one. `blocked` counts
    queues that do not get on, `members` those that want the topic, and `refusals` locks that were
    refused to one of them since the store was opened. `arrive_rate` is of messages for the group.
    """

    committed, committed_min, committed_max = _counts(_("committed messages"))
    delivered, delivered_min, delivered_max = _counts(_("delivered messages"))
    in_flight, in_flight_min, in_flight_max = _counts(_("messages in flight"))
    lag, lag_min, lag_max = _counts(_("lag"))
    consume_rate, consume_rate_min, consume_rate_max = _rates(_("consumed a second"))
    consume_rate_samples = _rate_samples(_("consumed a second"))
    oldest_age_ms, oldest_age_ms_min, oldest_age_ms_max = _counts(_("oldest age (ms)"))
    blocked, blocked_min, blocked_max = _counts(_("blocked queues"))
    members, members_min, members_max = _counts(_("members"))
    refusals, refusals_min, refusals_max = _counts(_("refusals"))
    arrive_rate, arrive_rate_min, arrive_rate_max = _rates(_("arriving a second"))
    arrive_rate_samples = _rate_samples(_("arriving a second"))
    refusal_rate, refusal_rate_min, refusal_rate_max = _rates(_("refused a second"))
    refusal_rate_samples = _rate_samples(_("refused a second"))

    class Meta:
        abstract = True


class TopicSample(Sample, TopicMeasures):
    """One topic in one slot. A topic is kept by name, because its numbers outlive its row."""

    keys = ("topic",)
    counts = ("sent", "held")
    rates = ("send_rate",)

    topic = _name(_("topic"))

    class Meta(Sample.Meta):
        verbose_name = _("topic sample")
        verbose_name_plural = _("topic samples")
        constraints = [
            *Sample.Meta.constraints,
            models.UniqueConstraint(
                fields=["topic", "resolution_s", "at"], name="topic_sample_once_a_slot"
            ),
        ]
        indexes = [models.Index(fields=["resolution_s", "at"], name="topic_sample_by_slot")]

    def __str__(self) -> str:
        """Return topic and slot."""
        return gettext("%(name)s at %(time)s, %(seconds)s s") % {
            "name": self.topic,
            "time": f"{self.at:%F %T}",
            "seconds": self.resolution_s,
        }


class GroupSample(Sample, GroupMeasures):
    """One group in one topic in one slot."""

    keys = ("group", "topic")
    counts = ("committed", "delivered", "in_flight", "lag")
    looks = ("oldest_age_ms", "blocked", "members", "refusals")
    rates = ("consume_rate", "arrive_rate", "refusal_rate")
    marks = ("queue_count",)

    group = _name(_("group"))
    # It may be the group's retry topic.
    topic = models.CharField(
        _("topic"), max_length=limits.NAME_CHARACTERS_MAX + len(RETRY_PREFIX), db_collation="C"
    )
    queue_count = models.PositiveIntegerField(_("number of queues"))

    class Meta(Sample.Meta):
        verbose_name = _("group sample")
        verbose_name_plural = _("group samples")
        constraints = [
            *Sample.Meta.constraints,
            models.UniqueConstraint(
                fields=["group", "topic", "resolution_s", "at"], name="group_sample_once_a_slot"
            ),
        ]
        indexes = [models.Index(fields=["resolution_s", "at"], name="group_sample_by_slot")]

    def __str__(self) -> str:
        """Return group, topic and slot."""
        return gettext("%(group)s in %(topic)s at %(time)s, %(seconds)s s") % {
            "group": self.group,
            "topic": self.topic,
            "time": f"{self.at:%F %T}",
            "seconds": self.resolution_s,
        }


class StoreSample(Sample, TopicMeasures, GroupMeasures):
    """All topics and groups together in one slot.

    It is written in one transaction with the slot's other rows, so it stands for all of them.
    """

    counts = (*TopicSample.counts, *GroupSample.counts, "log_bytes", "disk_percent")
    looks = GroupSample.looks
    rates = (*TopicSample.rates, *GroupSample.rates)
    marks = ("taken_at",)

    log_bytes, log_bytes_min, log_bytes_max = _counts(_("log (bytes)"))
    disk_percent, disk_percent_min, disk_percent_max = _counts(_("disk used (percent)"))
    taken_at = models.DateTimeField(_("taken at"))

    class Meta(Sample.Meta):
        verbose_name = _("store sample")
        verbose_name_plural = _("store samples")
        constraints = [
            *Sample.Meta.constraints,
            models.UniqueConstraint(fields=["resolution_s", "at"], name="store_sample_once_a_slot"),
        ]

    def __str__(self) -> str:
        """Return the slot."""
        return gettext("%(time)s, %(seconds)s s") % {
            "time": f"{self.at:%F %T}",
            "seconds": self.resolution_s,
        }
