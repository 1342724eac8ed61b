"""Shapes of a message's life on the wire. Unknown is null; offsets travel as strings."""

from typing import Any

from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import rfc3339, sampled_at
from apps.messages.life import Event, Gap, Kind, Life, Source
from apps.messages.texts import gap_text


class EventDocument(serializers.Serializer[Any]):
    """One thing that happened to a message, or is so now."""

    kind = serializers.ChoiceField([kind.value for kind in Kind])
    source = serializers.ChoiceField(  # type: ignore[assignment]  # A serializer has one, too.
        [source.value for source in Source], help_text="Where it is known from."
    )
    at = serializers.DateTimeField(
        allow_null=True,
        help_text="Of `made` the producer's clock, of `worked` the consumer's. Null: unknown.",
    )
    ended_at = serializers.DateTimeField(allow_null=True, help_text="Where it took time.")
    group = serializers.CharField(allow_null=True)
    client_id = serializers.CharField(allow_null=True)
    attempt = serializers.IntegerField(allow_null=True)
    topic = serializers.CharField(allow_null=True)
    queue = serializers.IntegerField(allow_null=True)
    offset = serializers.CharField(allow_null=True)
    result = serializers.CharField(allow_null=True)
    detail = serializers.CharField(allow_null=True)


class GapDocument(serializers.Serializer[Any]):
    """Something that is not known of a message, and why."""

    code = serializers.ChoiceField([gap.value for gap in Gap])
    detail = serializers.CharField()


class LifeDocument(serializers.Serializer[Any]):
    """What is known of a message's life, and what is not."""

    message_id = serializers.CharField()
    topic = serializers.CharField(allow_null=True)
    queue = serializers.IntegerField(allow_null=True, help_text="Null where it is not in the log.")
    offset = serializers.CharField(allow_null=True)
    events = EventDocument(many=True)
    unknown = GapDocument(many=True)
    scan_incomplete = serializers.BooleanField(
        help_text="The searches ended before they had looked everywhere."
    )
    sampled_at = serializers.DateTimeField()


def rendered_life(found: Life) -> dict[str, object]:
    """Build the JSON shape of a message's life."""
    record = None if found.head is None else found.head.record
    return {
        "message_id": found.message_id,
        "topic": found.topic or None,
        "queue": None if record is None else record.queue,
        "offset": None if record is None else str(record.queue_offset),
        "events": [_event(one) for one in found.events],
        "unknown": [{"code": gap.value, "detail": gap_text(gap)} for gap in sorted(found.gaps)],
        "scan_incomplete": found.scan_incomplete,
        "sampled_at": sampled_at(),
    }


def _event(event: Event) -> dict[str, object]:
    return {
        "kind": event.kind.value,
        "source": event.source.value,
        "at": _moment(event.at_ms),
        "ended_at": _moment(event.ended_ms),
        "group": event.group or None,
        "client_id": event.client_id or None,
        "attempt": event.attempt,
        "topic": event.topic or None,
        "queue": event.queue,
        "offset": None if event.queue_offset is None else str(event.queue_offset),
        "result": event.result or None,
        "detail": event.detail or None,
    }


def _moment(time_ms: int | None) -> str | None:
    """Return a time that a client may have written; None for what is none."""
    try:
        return None if time_ms is None else rfc3339(moment(time_ms))
    except OverflowError:
        return None
