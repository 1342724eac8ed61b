"""Topics, their queues, and the version of the whole. Rows and constraints only."""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.engine import limits, types
from apps.engine.types import PERM_READ, PERM_WRITE, TopicType

NAME_REGEX = rf"^{limits.NAME_PATTERN.pattern}$"

QUEUE_COUNT_DEFAULT = 4

EXPIRES_MS_MIN = 1_000
# A year: a topic that must live longer is better deleted by a person.
EXPIRES_MS_MAX = 365 * 86_400_000

# Retention looks every ten seconds, so less than a minute would promise too much.
RETENTION_MS_MIN = 60_000
RETENTION_MS_MAX = 3_660 * 86_400_000

# RocketMQ's bounds of `lite.topic.expiration`, in minutes.
LITE_TTL_MINUTES_MIN = 15
LITE_TTL_MINUTES_MAX = 43_200


class Perm(models.IntegerChoices):
    """What clients may do with a topic; RocketMQ's bits."""

    NONE = 0, _("nothing")
    WRITE = PERM_WRITE, _("write")
    READ = PERM_READ, _("read")
    READ_WRITE = PERM_READ | PERM_WRITE, _("read and write")


class Type(models.TextChoices):
    """Which kinds of message a topic takes."""

    NORMAL = TopicType.NORMAL.value, pgettext_lazy("type of a topic", "Normal")
    FIFO = TopicType.FIFO.value, pgettext_lazy("type of a topic", "FIFO")
    DELAY = TopicType.DELAY.value, pgettext_lazy("type of a topic", "Delay")
    TRANSACTION = TopicType.TRANSACTION.value, pgettext_lazy("type of a topic", "Transaction")
    PRIORITY = TopicType.PRIORITY.value, pgettext_lazy("type of a topic", "Priority")
    LITE = TopicType.LITE.value, pgettext_lazy("type of a topic", "Lite")
    MIXED = TopicType.MIXED.value, pgettext_lazy("type of a topic", "Mixed")


class Cleanup(models.TextChoices):
    """What becomes of old messages; fixed when a topic is made."""

    DELETE = types.Cleanup.DELETE.value, pgettext_lazy("cleanup", "Delete")
    COMPACT = types.Cleanup.COMPACT.value, pgettext_lazy("cleanup", "Compact")


class Topic(models.Model):
    """A named stream of messages, split into queues."""

    # Names are compared byte by byte, as the engine does, whatever the database's language is.
    name = models.CharField(
        _("name"), max_length=limits.NAME_CHARACTERS_MAX, unique=True, db_collation="C"
    )
    type = models.CharField(_("type"), max_length=16, choices=Type, default=Type.MIXED)
    # Queues that are read, that take messages, and that there will be: `apps.topics.queuecounts`.
    queue_count = models.PositiveSmallIntegerField(
        _("number of queues"), default=QUEUE_COUNT_DEFAULT
    )
    write_queue_count = models.PositiveSmallIntegerField(
        _("queues that take messages"), default=QUEUE_COUNT_DEFAULT, editable=False
    )
    target_queue_count = models.PositiveSmallIntegerField(
        _("queues to be"), default=QUEUE_COUNT_DEFAULT, editable=False
    )
    # When the engine was first seen to obey a change, and where the log ended at the next look.
    obeyed_at = models.DateTimeField(_("obeyed at"), null=True, editable=False)
    obeyed_log_offset = models.PositiveBigIntegerField(
        _("obeyed at log offset"), null=True, editable=False
    )
    perm = models.PositiveSmallIntegerField(_("clients may"), choices=Perm, default=Perm.READ_WRITE)
    # A topic that nobody uses for this long is deleted; without it none ever is.
    expires_ms = models.PositiveBigIntegerField(
        _("expires unused after (ms)"), null=True, blank=True
    )
    # Older messages are hidden, younger ones kept; without it the store's time holds.
    retention_ms = models.PositiveBigIntegerField(_("retention (ms)"), null=True, blank=True)
    # Fixed when the topic is made; a compacted one keeps its messages whatever their age.
    cleanup = models.CharField(_("cleanup"), max_length=16, choices=Cleanup, default=Cleanup.DELETE)
    # Lite topics of it without a new message for so long are gone; without it none ever is.
    lite_ttl_minutes = models.PositiveIntegerField(
        _("lite topics go after (min)"), null=True, blank=True
    )
    used_at = models.DateTimeField(_("used at"), null=True, editable=False)
    # The sum of the queues' max offsets when use was last looked for.
    used_offset = models.PositiveBigIntegerField(
        _("sum of offsets when last used"), default=0, editable=False
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated at"), auto_now=True)

    class Meta:
        ordering = ["name"]
        verbose_name = _("topic")
        verbose_name_plural = _("topics")
        constraints = [
            models.CheckConstraint(condition=Q(name__regex=NAME_REGEX), name="topic_name_is_valid"),
            models.CheckConstraint(condition=Q(type__in=Type.values), name="topic_type_is_known"),
            models.CheckConstraint(
                condition=Q(queue_count__gte=1, queue_count__lte=limits.QUEUE_COUNT_MAX),
                name="topic_queue_count_in_range",
            ),
            models.CheckConstraint(
                condition=Q(
                    write_queue_count__gte=1,
                    write_queue_count__lte=F("target_queue_count"),
                    target_queue_count__lte=F("queue_count"),
                ),
                name="topic_queue_counts_in_order",
            ),
            models.CheckConstraint(condition=Q(perm__in=Perm.values), name="topic_perm_is_known"),
            models.CheckConstraint(
                condition=Q(expires_ms=None)
                | Q(expires_ms__gte=EXPIRES_MS_MIN, expires_ms__lte=EXPIRES_MS_MAX),
                name="topic_expires_ms_in_range",
            ),
            models.CheckConstraint(
                condition=Q(retention_ms=None)
                | Q(retention_ms__gte=RETENTION_MS_MIN, retention_ms__lte=RETENTION_MS_MAX),
                name="topic_retention_ms_in_range",
            ),
            models.CheckConstraint(
                condition=Q(cleanup__in=Cleanup.values), name="topic_cleanup_is_known"
            ),
            models.CheckConstraint(
                condition=Q(cleanup=Cleanup.DELETE) | Q(retention_ms=None),
                name="topic_that_is_compacted_keeps_all_keys",
            ),
            models.CheckConstraint(
                condition=Q(lite_ttl_minutes=None)
                | Q(
                    type=Type.LITE,
                    lite_ttl_minutes__gte=LITE_TTL_MINUTES_MIN,
                    lite_ttl_minutes__lte=LITE_TTL_MINUTES_MAX,
                ),
                name="topic_lite_ttl_minutes_in_range",
            ),
            models.CheckConstraint(
                condition=~Q(type=Type.LITE) | Q(cleanup=Cleanup.DELETE),
                name="topic_of_lite_topics_is_not_compacted",
            ),
            models.CheckConstraint(
                condition=Q(expires_ms=None) | Q(used_at__isnull=False),
                name="topic_that_expires_was_used",
            ),
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class MessageQueue(models.Model):
    """One queue of a topic; its rows follow the topic's queue count."""

    topic = models.ForeignKey(
        Topic, verbose_name=_("topic"), on_delete=models.CASCADE, related_name="queues"
    )
    number = models.PositiveSmallIntegerField(_("number"))
    perm = models.PositiveSmallIntegerField(_("clients may"), choices=Perm, default=Perm.READ_WRITE)

    class Meta:
        ordering = ["topic", "number"]
        verbose_name = _("message queue")
        verbose_name_plural = _("message queues")
        constraints = [
            models.UniqueConstraint(fields=["topic", "number"], name="queue_number_once_a_topic"),
            models.CheckConstraint(
                condition=Q(number__lt=limits.QUEUE_COUNT_MAX), name="queue_number_in_range"
            ),
            models.CheckConstraint(condition=Q(perm__in=Perm.values), name="queue_perm_is_known"),
        ]

    def __str__(self) -> str:
        """Return topic and number."""
        return f"{self.topic}/{self.number}"


class CatalogVersion(models.Model):
    """The version of all topics together: one row, raised by every change in its transaction."""

    id = models.PositiveSmallIntegerField("ID", primary_key=True, default=1)
    version = models.PositiveBigIntegerField(_("version"), default=0)

    class Meta:
        verbose_name = _("version of the catalog")
        verbose_name_plural = _("versions of the catalog")
        constraints = [models.CheckConstraint(condition=Q(id=1), name="catalog_version_is_one_row")]

    def __str__(self) -> str:
        """Return the version."""
        return str(self.version)
