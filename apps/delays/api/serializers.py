"""Shapes of delayed messages on the wire. Unknown is null; offsets travel as strings."""

from typing import Any

from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import rfc3339, sampled_at
from apps.delays.selectors import Delays
from apps.engine.delaytypes import DelayedMessage, DelayLevelState


class DelayedDocument(serializers.Serializer[Any]):
    """A message that waits for its time."""

    number = serializers.CharField(help_text="Unique in its level, or among those without one.")
    recall_handle = serializers.CharField(
        allow_null=True, help_text="For `DELETE /delayed/{recall_handle}`; null in a level."
    )
    level = serializers.IntegerField(allow_null=True, help_text="Null for a delay of its own.")
    topic = serializers.CharField()
    queue = serializers.IntegerField()
    message_id = serializers.CharField()
    tag = serializers.CharField(allow_null=True)
    keys = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Null for a caller who may not peek into the topic.",
    )
    size_bytes = serializers.IntegerField()
    born_time = serializers.DateTimeField(allow_null=True)
    deliver_at = serializers.DateTimeField()


class DelayedList(serializers.Serializer[Any]):
    """A page of delayed messages, by due time."""

    items = DelayedDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class DelayLevelDocument(serializers.Serializer[Any]):
    """One delay level."""

    level = serializers.IntegerField()
    delay_ms = serializers.IntegerField()
    pending = serializers.IntegerField(help_text="Messages that wait.")
    delivered = serializers.CharField(help_text="Offset in the level up to which all is delivered.")
    max_offset = serializers.CharField()
    head_due_at = serializers.DateTimeField(allow_null=True)
    head_late_ms = serializers.IntegerField(
        allow_null=True, help_text="How long the first message has been due; 0 before its time."
    )
    late_ms = serializers.IntegerField(
        allow_null=True, help_text="How late the last delivery was; null before the first."
    )


class DelayLevelList(serializers.Serializer[Any]):
    """All delay levels."""

    items = DelayLevelDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class DelayBucketDocument(serializers.Serializer[Any]):
    """Messages by how far off they are."""

    within_s = serializers.IntegerField(
        allow_null=True, help_text="Due within so many seconds, and not within those before."
    )
    count = serializers.IntegerField()


class DelayStatusDocument(serializers.Serializer[Any]):
    """Counters; all but those of what is pending are since the broker started."""

    in_levels = serializers.IntegerField(help_text="Messages that wait in the levels.")
    pending = serializers.IntegerField(help_text="Messages with a delay of their own that wait.")
    delivered = serializers.IntegerField()
    cancelled = serializers.IntegerField()
    sent_now = serializers.IntegerField()
    without_topic = serializers.IntegerField(help_text="Due messages whose topic had been deleted.")
    next_due_at = serializers.DateTimeField(allow_null=True)
    late_ms = serializers.IntegerField(
        allow_null=True, help_text="How late the last delivery was; null before the first."
    )
    clock_held_ms = serializers.IntegerField(
        help_text="By how much deliveries are held back because the wall clock jumped ahead."
    )
    histogram = DelayBucketDocument(many=True)
    sampled_at = serializers.DateTimeField()


def rendered_message(message: DelayedMessage, *, peeks: bool) -> dict[str, object]:
    """Build the JSON shape of a delayed message, for who `peeks` with its keys."""
    return {
        "number": str(message.number),
        "recall_handle": message.handle,
        "level": message.level,
        "topic": message.topic,
        "queue": message.queue,
        "message_id": message.message_id,
        "tag": message.tag or None,
        "keys": message.keys.split() if peeks else None,
        "size_bytes": message.size_bytes,
        "born_time": _born(message.born_time_ms),
        "deliver_at": rfc3339(moment(message.due_ms)),
    }


def rendered_level(state: DelayLevelState, *, now_ms: int) -> dict[str, object]:
    """Build the JSON shape of a level."""
    head_ms = state.head_due_ms
    return {
        "level": state.level,
        "delay_ms": state.delay_ms,
        "pending": state.max_offset - state.delivered,
        "delivered": str(state.delivered),
        "max_offset": str(state.max_offset),
        "head_due_at": _moment(head_ms),
        "head_late_ms": None if head_ms is None else max(0, now_ms - head_ms),
        "late_ms": state.late_ms,
    }


def rendered_status(found: Delays) -> dict[str, object]:
    """Build the JSON shape of the counters."""
    status = found.status
    return {
        "in_levels": found.in_levels,
        "pending": status.pending,
        "delivered": status.delivered,
        "cancelled": status.cancelled,
        "sent_now": status.sent_now,
        "without_topic": status.without_topic,
        "next_due_at": _moment(status.next_due_ms),
        "late_ms": status.late_ms,
        "clock_held_ms": status.clock_held_ms,
        "histogram": [
            {"within_s": within_s, "count": count} for within_s, count in status.histogram
        ],
        "sampled_at": sampled_at(),
    }


def _moment(time_ms: int | None) -> str | None:
    return None if time_ms is None else rfc3339(moment(time_ms))


def _born(time_ms: int) -> str | None:
    # The producer's own word: whatever it wrote, the answer must not fail on it.
    try:
        return rfc3339(moment(time_ms)) if time_ms > 0 else None
    except OverflowError:
        return None
