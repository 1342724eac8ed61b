"""Shapes of groups on the wire. Offsets travel as strings, because they have 64 bits."""

from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from apps.core.pagination import rfc3339, sampled_at
from apps.engine.types import ClientSeen, GroupProgress
from apps.groups.selectors import GroupState


class MemberDocument(serializers.Serializer[Any]):
    """A client that received for the group lately."""

    client_id = serializers.CharField()
    topics = serializers.ListField(child=serializers.CharField())
    first_seen_at = serializers.DateTimeField(help_text="Since the broker started.")
    last_seen_at = serializers.DateTimeField()
    is_waiting = serializers.BooleanField(help_text="A receive waits in the broker now.")


class GroupDocument(serializers.Serializer[Any]):
    """A group in an answer; null is what this version does not know."""

    group = serializers.CharField()
    topics = serializers.ListField(child=serializers.CharField())
    queue_count = serializers.IntegerField(help_text="Queues the group has progress in.")
    lag = serializers.CharField(help_text="Messages not yet committed, over all queues.")
    in_flight = serializers.IntegerField(help_text="Handed out and not settled.")
    members = MemberDocument(many=True)
    assignment = serializers.DictField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class GroupList(serializers.Serializer[Any]):
    """A page of groups."""

    items = GroupDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class OffsetDocument(serializers.Serializer[Any]):
    """Progress in one queue."""

    topic = serializers.CharField()
    queue = serializers.IntegerField()
    committed = serializers.CharField(help_text="Every message below is done.")
    delivered = serializers.CharField(help_text="One past the newest message handed out.")
    max_offset = serializers.CharField(help_text="One past the newest message.")


class OffsetList(serializers.Serializer[Any]):
    """Progress of a group, by topic and queue."""

    items = OffsetDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class LagDocument(OffsetDocument):
    """Progress in one queue, with what is left to do."""

    lag = serializers.CharField(help_text="Messages not yet committed.")
    in_flight = serializers.IntegerField()
    ready = serializers.CharField(
        help_text="With nobody: never handed out, given back, or out for too long."
    )
    oldest_age_ms = serializers.IntegerField(allow_null=True)
    owner = serializers.CharField(allow_null=True)
    lock = serializers.DictField(allow_null=True)


class LagList(serializers.Serializer[Any]):
    """Backlog of a group, by topic and queue."""

    items = LagDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


def rendered_group(state: GroupState) -> dict[str, object]:
    """Build the JSON shape of a group."""
    return {
        "group": state.group,
        "topics": list(state.topics),
        "queue_count": state.queue_count,
        "lag": str(state.lag),
        "in_flight": state.in_flight,
        "members": [rendered_member(member) for member in state.members],
        "assignment": None,
        "sampled_at": sampled_at(),
    }


def rendered_member(member: ClientSeen) -> dict[str, object]:
    """Build the JSON shape of a member."""
    return {
        "client_id": member.client_id,
        "topics": list(member.topics),
        "first_seen_at": _moment(member.first_seen_ms),
        "last_seen_at": _moment(member.last_seen_ms),
        "is_waiting": member.is_waiting,
    }


def rendered_offset(row: GroupProgress) -> dict[str, object]:
    """Build the JSON shape of progress in one queue."""
    return {
        "topic": row.topic,
        "queue": row.queue,
        "committed": str(row.committed),
        "delivered": str(row.delivered),
        "max_offset": str(row.max_offset),
    }


def rendered_lag(row: GroupProgress) -> dict[str, object]:
    """Build the JSON shape of the backlog of one queue."""
    return {
        **rendered_offset(row),
        "lag": str(row.max_offset - row.committed),
        "in_flight": row.in_flight,
        "ready": str(row.ready),
        "oldest_age_ms": None,
        "owner": None,
        "lock": None,
    }


def _moment(time_ms: int) -> str:
    return rfc3339(datetime.fromtimestamp(time_ms / 1000, UTC))
