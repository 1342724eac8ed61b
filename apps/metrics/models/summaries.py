"""What lists and alerts read: one row a topic and one a group, of the newest sample. Rows only.

The sampling task keeps them, so that no page and no rule ever asks the engine. NULL is unknown,
never 0. A row says itself of when it is.
"""

from django.db import models

from apps.engine import limits


def _count() -> "models.PositiveBigIntegerField[int | None, int | None]":
    return models.PositiveBigIntegerField(null=True)


def _rate() -> "models.FloatField[float | None, float | None]":
    return models.FloatField(null=True)


def _name() -> "models.CharField[str, str]":
    return models.CharField(max_length=limits.NAME_CHARACTERS_MAX, db_collation="C", unique=True)


class Summary(models.Model):
    """What all have: whose it is, and when the engine said so."""

    name = _name()
    sampled_at = models.DateTimeField()

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

    type = models.CharField(max_length=16, blank=True)
    cleanup = models.CharField(max_length=16, blank=True)
    queue_count = _count()
    sent = _count()
    held = _count()
    send_rate = _rate()
    group_count = models.PositiveIntegerField(default=0)
    lag = _count()
    lag_max = _count()
    oldest_age_ms = _count()
    blocked = _count()


class GroupSummary(Summary):
    """One group over all topics it reads.

    A group that has read nothing yet has no `lag`. `looked_at` is when `oldest_age_ms`, `blocked`,
    `members`, `refusals` and `dead_letters` were read: in a large store less often than the rest.
    `retry_lag` is the part of `lag` in its retry topic; `refusal_rate` is a second. `drain_ms` is 0
    without a backlog, and NULL where it does not shrink or nobody knows.
    """

    topics = models.JSONField(default=list)
    topic_count = models.PositiveIntegerField(default=0)
    queue_count = models.PositiveIntegerField(default=0)
    is_ordered = models.BooleanField(default=False)
    committed = _count()
    in_flight = _count()
    lag = _count()
    retry_lag = _count()
    consume_rate = _rate()
    arrive_rate = _rate()
    drain_ms = _count()
    looked_at = models.DateTimeField(null=True)
    oldest_age_ms = _count()
    blocked = _count()
    members = _count()
    refusals = _count()
    refusal_rate = _rate()
    dead_letters = _count()
