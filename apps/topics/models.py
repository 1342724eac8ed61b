"""Topics, their queues, and the version of the whole. Rows and constraints only."""

from django.db import models
from django.db.models import F, Q

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


class Perm(models.IntegerChoices):
    """What clients may do with a topic; RocketMQ's bits."""

    NONE = 0, "nothing"
    WRITE = PERM_WRITE, "write"
    READ = PERM_READ, "read"
    READ_WRITE = PERM_READ | PERM_WRITE, "read and write"


class Type(models.TextChoices):
    """Which kinds of message a topic takes."""

    NORMAL = TopicType.NORMAL.value
    FIFO = TopicType.FIFO.value
    DELAY = TopicType.DELAY.value
    TRANSACTION = TopicType.TRANSACTION.value
    MIXED = TopicType.MIXED.value


class Cleanup(models.TextChoices):
    """What becomes of old messages; fixed when a topic is made."""

    DELETE = types.Cleanup.DELETE.value
    COMPACT = types.Cleanup.COMPACT.value


class Topic(models.Model):
    """A named stream of messages, split into queues."""

    # Names are compared byte by byte, as the engine does, whatever the database's language is.
    name = models.CharField(max_length=limits.NAME_CHARACTERS_MAX, unique=True, db_collation="C")
    type = models.CharField(max_length=16, choices=Type, default=Type.MIXED)
    # Queues that are read, that take messages, and that there will be: `apps.topics.queuecounts`.
    queue_count = models.PositiveSmallIntegerField(default=QUEUE_COUNT_DEFAULT)
    write_queue_count = models.PositiveSmallIntegerField(
        default=QUEUE_COUNT_DEFAULT, editable=False
    )
    target_queue_count = models.PositiveSmallIntegerField(
        default=QUEUE_COUNT_DEFAULT, editable=False
    )
    # When the engine was first seen to obey a change, and where the log ended at the next look.
    obeyed_at = models.DateTimeField(null=True, editable=False)
    obeyed_log_offset = models.PositiveBigIntegerField(null=True, editable=False)
    perm = models.PositiveSmallIntegerField(choices=Perm, default=Perm.READ_WRITE)
    # A topic that nobody uses for this long is deleted; without it none ever is.
    expires_ms = models.PositiveBigIntegerField(null=True, blank=True)
    # Older messages are hidden, younger ones kept; without it the store's time holds.
    retention_ms = models.PositiveBigIntegerField(null=True, blank=True)
    # Fixed when the topic is made; a compacted one keeps its messages whatever their age.
    cleanup = models.CharField(max_length=16, choices=Cleanup, default=Cleanup.DELETE)
    used_at = models.DateTimeField(null=True, editable=False)
    # The sum of the queues' max offsets when use was last looked for.
    used_offset = models.PositiveBigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
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
                condition=Q(expires_ms=None) | Q(used_at__isnull=False),
                name="topic_that_expires_was_used",
            ),
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class MessageQueue(models.Model):
    """One queue of a topic; its rows follow the topic's queue count."""

    topic = models.ForeignKey(Topic, on_delete=models.CASCADE, related_name="queues")
    number = models.PositiveSmallIntegerField()
    perm = models.PositiveSmallIntegerField(choices=Perm, default=Perm.READ_WRITE)

    class Meta:
        ordering = ["topic", "number"]
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

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    version = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="catalog_version_is_one_row")]

    def __str__(self) -> str:
        """Return the version."""
        return str(self.version)
