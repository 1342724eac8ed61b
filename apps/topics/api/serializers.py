"""Shapes of topics on the wire. Offsets travel as strings, because they have 64 bits."""

from typing import Any

from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import rfc3339_or_none, sampled_at
from apps.core.serializers import (
    StrictBooleanField,
    StrictChoiceField,
    StrictIntegerField,
    StrictSerializer,
)
from apps.engine import limits
from apps.engine.litetypes import LiteTopic
from apps.topics.models import (
    EXPIRES_MS_MAX,
    EXPIRES_MS_MIN,
    LITE_TTL_MINUTES_MAX,
    LITE_TTL_MINUTES_MIN,
    QUEUE_COUNT_DEFAULT,
    RETENTION_MS_MAX,
    RETENTION_MS_MIN,
    Cleanup,
    Perm,
    Type,
)
from apps.topics.selectors import QueueState, TopicState


class StrictPermField(StrictIntegerField):
    """RocketMQ's permission bits: 2 write, 4 read."""

    def to_internal_value(self, data: Any) -> int:
        """Return the bits; raise ValidationError for a value that is none of the known ones."""
        perm = super().to_internal_value(data)
        if perm not in Perm.values:
            raise serializers.ValidationError(f"must be one of {', '.join(map(str, Perm.values))}")
        return perm


class TopicChange(StrictSerializer):
    """Body of a PUT. What is left out keeps its value, or takes the default in a new topic."""

    queue_count = StrictIntegerField(
        required=False,
        min_value=1,
        max_value=limits.QUEUE_COUNT_MAX,
        help_text=f"Number of queues, {QUEUE_COUNT_DEFAULT} in a new topic. Fewer than there are "
        "drain: they take no more messages, and go once every group has read them.",
    )
    drain = StrictBooleanField(
        required=False,
        help_text="True lets further queues take messages once every group has read all there is; "
        "without it they do at once, and keys that move are not kept in order. False opens queues "
        "that wait.",
    )
    type = StrictChoiceField(Type.values, required=False, help_text="MIXED in a new topic.")
    perm = StrictPermField(
        required=False, help_text="Sum of 2 (write) and 4 (read); 6 in a new topic."
    )
    expires_ms = StrictIntegerField(
        required=False,
        allow_null=True,
        min_value=EXPIRES_MS_MIN,
        max_value=EXPIRES_MS_MAX,
        help_text="The topic is deleted when nobody has used it for so long; null is never.",
    )
    retention_ms = StrictIntegerField(
        required=False,
        allow_null=True,
        min_value=RETENTION_MS_MIN,
        max_value=RETENTION_MS_MAX,
        help_text="Messages that are older are not read any more; null keeps them as long as the "
        "store does.",
    )
    cleanup = StrictChoiceField(
        Cleanup.values,
        required=False,
        help_text="delete in a new topic. compact keeps the newest message of each key of each "
        "queue for ever, and takes no message without a key. Fixed when the topic is made.",
    )
    lite_ttl_minutes = StrictIntegerField(
        required=False,
        allow_null=True,
        min_value=LITE_TTL_MINUTES_MIN,
        max_value=LITE_TTL_MINUTES_MAX,
        help_text="Of the type LITE: lite topics without a new message for so long are gone; null "
        "is never.",
    )


class QueueDocument(serializers.Serializer[Any]):
    """A queue in an answer."""

    queue = serializers.IntegerField()
    min_offset = serializers.CharField(allow_null=True, help_text="64-bit integer as a string.")
    max_offset = serializers.CharField(allow_null=True, help_text="One past the newest message.")
    kept_messages = serializers.CharField(
        allow_null=True,
        required=False,
        help_text="In a compacted topic: messages the last round has kept, null before the first.",
    )
    compacted_at = serializers.DateTimeField(
        allow_null=True, required=False, help_text="In a compacted topic: when that round was."
    )


class UnreadDocument(serializers.Serializer[Any]):
    """Messages that keep a change of the number of queues waiting."""

    group = serializers.CharField(allow_null=True, help_text="Null where no group reads the topic.")
    queue = serializers.IntegerField()
    lag = serializers.CharField(help_text="Messages not yet committed.")


class TopicDocument(serializers.Serializer[Any]):
    """A topic in an answer."""

    topic = serializers.CharField()
    type = serializers.ChoiceField(Type.values)
    queue_count = serializers.IntegerField(help_text="Queues that are read.")
    write_queue_count = serializers.IntegerField(help_text="Queues that take messages.")
    target_queue_count = serializers.IntegerField(
        allow_null=True, help_text="Queues there will be; null where the database is away."
    )
    waiting_for = UnreadDocument(
        many=True, allow_null=True, help_text="What must be read before the numbers are equal."
    )
    perm = serializers.ChoiceField(Perm.values)
    expires_ms = serializers.IntegerField(
        allow_null=True, help_text="Null where it never expires, or the database does not answer."
    )
    retention_ms = serializers.IntegerField(
        allow_null=True, help_text="Null where messages are kept as long as the store does."
    )
    cleanup = serializers.ChoiceField(Cleanup.values)
    lite_ttl_minutes = serializers.IntegerField(
        allow_null=True, help_text="Null where lite topics stay, or there are none."
    )
    queues = QueueDocument(many=True)
    created_at = serializers.DateTimeField(allow_null=True)
    updated_at = serializers.DateTimeField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class LiteTopicDocument(serializers.Serializer[Any]):
    """A lite topic in an answer."""

    name = serializers.CharField(help_text="What it is called in its parent.")
    topic = serializers.CharField(
        help_text="Its own name, by which messages are read, searched and sent."
    )
    min_offset = serializers.CharField(help_text="64-bit integer as a string.")
    max_offset = serializers.CharField(help_text="One past the newest message.")
    newest_at = serializers.DateTimeField(
        allow_null=True, help_text="When its newest message was stored; null while not known."
    )
    subscribers = serializers.IntegerField(help_text="Clients of all groups.")


class LiteTopicList(serializers.Serializer[Any]):
    """A page of lite topics, by name."""

    items = LiteTopicDocument(many=True)
    total = serializers.IntegerField(help_text="Of the topic, on all pages.")
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class TopicList(serializers.Serializer[Any]):
    """A page of topics."""

    items = TopicDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


def rendered(state: TopicState) -> dict[str, object]:
    """Build the JSON shape of a topic."""
    return {
        "topic": state.name,
        "type": state.type,
        "queue_count": state.queue_count,
        "write_queue_count": state.write_queue_count,
        "target_queue_count": state.target_queue_count,
        "waiting_for": None
        if state.waiting_for is None
        else [
            {"group": unread.group, "queue": unread.queue, "lag": str(unread.lag)}
            for unread in state.waiting_for
        ],
        "perm": state.perm,
        "expires_ms": state.expires_ms,
        "retention_ms": state.retention_ms,
        "cleanup": state.cleanup,
        "lite_ttl_minutes": state.lite_ttl_minutes,
        "queues": [
            _rendered_queue(queue, is_compacted=state.cleanup == Cleanup.COMPACT)
            for queue in state.queues
        ],
        "created_at": rfc3339_or_none(state.created_at),
        "updated_at": rfc3339_or_none(state.updated_at),
        "sampled_at": sampled_at(),
    }


def _rendered_queue(queue: QueueState, *, is_compacted: bool) -> dict[str, object]:
    shape: dict[str, object] = {
        "queue": queue.number,
        "min_offset": offset_text(queue.min_offset),
        "max_offset": offset_text(queue.max_offset),
    }
    if is_compacted:
        written_ms = queue.compacted_ms
        shape["kept_messages"] = offset_text(queue.kept_messages)
        shape["compacted_at"] = None if written_ms is None else rfc3339_or_none(moment(written_ms))
    return shape


def offset_text(offset: int | None) -> str | None:
    """Write an offset as a string; None stays None."""
    return None if offset is None else str(offset)


def rendered_lite(lite: LiteTopic) -> dict[str, object]:
    """Build the JSON shape of a lite topic."""
    return {
        "name": lite.name,
        "topic": lite.topic,
        "min_offset": offset_text(lite.min_offset),
        "max_offset": offset_text(lite.max_offset),
        "newest_at": None if lite.last_ms is None else rfc3339_or_none(moment(lite.last_ms)),
        "subscribers": lite.subscribers,
    }
