"""What lists and alerts read: one row a topic and one a group, of the newest sample. Rows only.

The sampling task keeps them, so that no page and no rule ever asks the engine. NULL is unknown,
never 0. A row says itself of when it is.
"""

from typing import TYPE_CHECKING

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.engine import limits

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise


def _count(verbose_name: "StrPromise") -> "models.PositiveBigIntegerField[int | None, int | None]":
    return models.PositiveBigIntegerField(verbose_name, null=True)


def _rate(verbose_name: "StrPromise") -> "models.FloatField[float | None, float | None]":
    return models.FloatField(verbose_name, null=True)


def _name(verbose_name: "StrPromise") -> "models.CharField[str, str]":
    return models.CharField(
        verbose_name, max_length=limits.NAME_CHARACTERS_MAX, db_collation="C", unique=True
    )


class Summary(models.Model):
    """What all have: whose it is, and when the engine said so."""

    name = _name(_("name"))
    sampled_at = models.DateTimeField(_("sampled at"))

    class Meta:
        abstract = True
        ordering = ["name"]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class TopicSummary(Summary):
    """One topic. `lag` is that of its groups together, `lag_max` that of the one furthest behind.

    Both are NULL without a group. `blocked` counts queues that do not get on in some group.
    """

    type = models.CharField(_("type"), max_length=16, blank=True)
    cleanup = models.CharField(_("cleanup"), max_length=16, blank=True)
    queue_count = _count(_("number of queues"))
    sent = _count(_("messages sent"))
    held = _count(_("messages held"))
    send_rate = _rate(_("sent a second"))
    group_count = models.PositiveIntegerField(_("number of groups"), default=0)
    lag = _count(_("lag"))
    lag_max = _count(_("largest lag"))
    oldest_age_ms = _count(_("oldest age (ms)"))
    blocked = _count(_("blocked queues"))

    class Meta(Summary.Meta):
        verbose_name = _("topic summary")
        verbose_name_plural = _("topic summaries")


class GroupSummary(Summary):
    """One group over all topics it reads.

    A group that has read nothing yet has no `lag`. `looked_at` is when `oldest_age_ms`, `blocked`,
    `members`, `refusals` and `dead_letters` were read: in a large store less often than the rest.
    `retry_lag` is the part of `lag` in its retry topic; `refusal_rate` is a second. `drain_ms` is 0
    without a backlog, and NULL where it does not shrink or nobody knows.
    """

    topics = models.JSONField(_("topics"), default=list)
    topic_count = models.PositiveIntegerField(_("number of topics"), default=0)
    queue_count = models.PositiveIntegerField(_("number of queues"), default=0)
    is_ordered = models.BooleanField(_("ordered"), default=False)
    committed = _count(_("committed messages"))
    in_flight = _count(_("messages in flight"))
    lag = _count(_("lag"))
    retry_lag = _count(_("lag in retries"))
    consume_rate = _rate(_("consumed a second"))
    arrive_rate = _rate(_("arriving a second"))
    drain_ms = _count(_("drained in (ms)"))
    looked_at = models.DateTimeField(_("read at"), null=True)
    oldest_age_ms = _count(_("oldest age (ms)"))
    blocked = _count(_("blocked queues"))
    members = _count(_("members"))
    refusals = _count(_("refusals"))
    refusal_rate = _rate(_("refused a second"))
    dead_letters = _count(_("dead letters"))

    class Meta(Summary.Meta):
        verbose_name = _("group summary")
        verbose_name_plural = _("group summaries")
