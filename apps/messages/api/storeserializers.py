"""Shapes of the store on the wire. Unknown is null; sizes and offsets travel as strings."""

from typing import Any

from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import rfc3339, sampled_at
from apps.engine.types import RoomState
from apps.messages.selectors import Store


class BehindDocument(serializers.Serializer[Any]):
    """By how many bytes what follows the log is behind what is written."""

    synced = serializers.CharField(allow_null=True)
    queues = serializers.CharField(allow_null=True)
    index = serializers.CharField(allow_null=True)
    checkpoint = serializers.CharField(
        allow_null=True, help_text="What a start after a kill dispatches again."
    )


class DiskDocument(serializers.Serializer[Any]):
    """The disk, and from which share of it on what happens."""

    size_bytes = serializers.CharField(allow_null=True)
    free_bytes = serializers.CharField()
    used_percent = serializers.FloatField(allow_null=True)
    delete_percent = serializers.IntegerField(help_text="Old segments go at any hour.")
    force_percent = serializers.IntegerField(help_text="The oldest go, whatever their age.")
    refuse_percent = serializers.IntegerField(help_text="Sends are refused.")
    room = serializers.ChoiceField([state.value for state in RoomState])
    room_reason = serializers.CharField(allow_null=True)


class BlockDocument(serializers.Serializer[Any]):
    """Who still needs a part of the log that would be deleted otherwise."""

    holder = serializers.CharField()
    log_offset = serializers.CharField()
    size_bytes = serializers.CharField()
    since = serializers.DateTimeField()


class RetentionDocument(serializers.Serializer[Any]):
    """What is kept, and what keeps it; counts are since the broker started."""

    oldest_at = serializers.DateTimeField(allow_null=True)
    deleted_segments = serializers.IntegerField()
    deleted_bytes = serializers.CharField()
    lost_messages = serializers.IntegerField()
    blocked_by = BlockDocument(many=True)


class DamageDocument(serializers.Serializer[Any]):
    """A damaged place of the log."""

    log_offset = serializers.CharField()
    length_bytes = serializers.CharField()
    reason = serializers.CharField()
    found_at = serializers.DateTimeField(allow_null=True)


class StoreDocument(serializers.Serializer[Any]):
    """The store and its broker at one moment."""

    store_id = serializers.CharField()
    version = serializers.CharField()
    epoch = serializers.IntegerField()
    opened_at = serializers.DateTimeField(allow_null=True)
    log_start = serializers.CharField()
    written_offset = serializers.CharField()
    synced_offset = serializers.CharField()
    log_bytes = serializers.CharField()
    segment_bytes = serializers.CharField(allow_null=True)
    segments = serializers.IntegerField(allow_null=True)
    behind = BehindDocument()
    index_waiting = serializers.IntegerField(help_text="Records with keys in no index file yet.")
    disk = DiskDocument()
    retention = RetentionDocument(allow_null=True)
    quarantine = DamageDocument(many=True)
    quarantined_ranges = serializers.IntegerField()
    unreadable_messages = serializers.CharField()
    topics = serializers.IntegerField()
    clients = serializers.IntegerField()
    sampled_at = serializers.DateTimeField()


def rendered_store(found: Store) -> dict[str, object]:
    """Build the JSON shape of the store."""
    status, marks = found.status, found.marks
    return {
        "store_id": status.store_id,
        "version": found.version,
        "epoch": status.epoch,
        "opened_at": _moment(status.opened_ms),
        "log_start": str(status.log_start),
        "written_offset": str(status.written_offset),
        "synced_offset": str(status.synced_offset),
        "log_bytes": str(found.log_bytes),
        "segment_bytes": str(status.segment_bytes) if status.segment_bytes else None,
        "segments": found.segment_count,
        "behind": {
            name: None if size is None else str(size) for name, size in found.behind.items()
        },
        "index_waiting": status.index_waiting,
        "disk": {
            "size_bytes": str(status.disk_bytes) if status.disk_bytes else None,
            "free_bytes": str(status.free_bytes),
            "used_percent": None if found.used_percent is None else round(found.used_percent, 2),
            "delete_percent": marks.delete_percent,
            "force_percent": marks.force_percent,
            "refuse_percent": marks.refuse_percent,
            "room": status.room.value,
            "room_reason": status.room_reason or None,
        },
        "retention": _retention(found),
        "quarantine": [
            {
                "log_offset": str(place.log_offset),
                "length_bytes": str(place.length_bytes),
                "reason": place.reason,
                "found_at": _moment(place.found_ms),
            }
            for place in status.quarantine
        ],
        "quarantined_ranges": status.quarantined_ranges,
        "unreadable_messages": str(status.unreadable_messages),
        "topics": found.topic_count,
        "clients": found.client_count,
        "sampled_at": sampled_at(),
    }


def _retention(found: Store) -> dict[str, object] | None:
    retention = found.status.retention
    if retention is None:
        return None
    return {
        "oldest_at": _moment(retention.oldest_ms or 0),
        "deleted_segments": retention.deleted_segments,
        "deleted_bytes": str(retention.deleted_bytes),
        "lost_messages": retention.lost_messages,
        "blocked_by": [
            {
                "holder": block.holder,
                "log_offset": str(block.log_offset),
                "size_bytes": str(block.size_bytes),
                "since": _moment(block.since_ms),
            }
            for block in retention.blocked_by
        ],
    }


def _moment(time_ms: int) -> str | None:
    return rfc3339(moment(time_ms)) if time_ms else None
