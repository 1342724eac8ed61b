"""Resets of offsets and what-if, as they are asked for and answered."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.core.moments import ms_of
from apps.core.pagination import rfc3339, sampled_at
from apps.core.serializers import (
    StrictChoiceField,
    StrictIntegerField,
    StrictSerializer,
    StrictTextField,
)
from apps.engine import limits
from apps.engine.caretypes import WhatIf
from apps.engine.types import Strategy
from apps.groups.models import OffsetReset
from apps.groups.models.fields import REASON_CHARACTERS_MAX
from apps.groups.models.resets import ResetState
from apps.groups.selectors import Preview
from apps.groups.targets import Target, TargetKind

_OFFSET = re.compile(r"-?[0-9]{1,19}")
_OFFSET_MAX = 2**63 - 1
TOKEN_CHARACTERS_MAX = 1024 * 1024


class OffsetField(serializers.CharField):
    """A queue offset: a string of digits, or an integer."""

    def __init__(self, *, is_signed: bool = False, **options: Any) -> None:
        """Take the options of a CharField; a signed one may be negative."""
        super().__init__(**options)
        self._is_signed = is_signed

    def to_internal_value(self, data: Any) -> Any:
        """Return the integer; raise ValidationError for anything else."""
        is_integer = isinstance(data, int) and not isinstance(data, bool)
        text = str(data) if is_integer or isinstance(data, str) else ""
        if not _OFFSET.fullmatch(text):
            raise serializers.ValidationError("must be a string of digits")
        value = int(text)
        if abs(value) > _OFFSET_MAX or (value < 0 and not self._is_signed):
            raise serializers.ValidationError("is no offset")
        return value


@extend_schema_field({"oneOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}]})
class MomentField(serializers.Field[Any, Any, Any, Any]):
    """A moment: RFC 3339 with a zone, or milliseconds since 1970 UTC."""

    def to_internal_value(self, data: Any) -> int:
        """Return milliseconds since 1970 UTC; raise ValidationError for anything else."""
        if isinstance(data, int) and not isinstance(data, bool):
            if not 0 <= data < 253_402_300_800_000:
                raise serializers.ValidationError("must be before the year 10000")
            return data
        try:
            found = parse_datetime(data) if isinstance(data, str) else None
        except ValueError:
            found = None
        if not isinstance(found, datetime) or found.tzinfo is None:
            raise serializers.ValidationError("must be a moment with a zone, as in RFC 3339")
        return ms_of(found)

    def to_representation(self, value: Any) -> Any:
        """Return it as it is: this field is for input."""
        return value


# What each kind of target needs beside its name.
_NEEDS: Mapping[TargetKind, str | None] = {
    TargetKind.EARLIEST: None,
    TargetKind.LATEST: None,
    TargetKind.TIME: "time",
    TargetKind.OFFSET: "offset",
    TargetKind.SHIFT: "shift",
    TargetKind.COPY_FROM: "copy_from",
}


class PreviewRequest(StrictSerializer):
    """Body of a preview."""

    target = StrictChoiceField(choices=[kind.value for kind in TargetKind])
    time = MomentField(
        required=False, help_text="For `time`: the first message stored then or later."
    )
    offset = OffsetField(required=False, help_text="For `offset`: of each queue.")
    shift = OffsetField(
        is_signed=True, required=False, help_text="For `shift`: messages on, or back."
    )
    copy_from = StrictTextField(
        required=False,
        max_length=limits.NAME_CHARACTERS_MAX,
        help_text="For `copy_from`: the group whose offsets are taken.",
    )
    topic = StrictTextField(
        required=False,
        max_length=limits.NAME_CHARACTERS_MAX + 7,
        help_text="Only this one; all that the group reads, but for its retries, without.",
    )
    queues = serializers.ListField(
        child=StrictIntegerField(min_value=0, max_value=limits.QUEUE_COUNT_MAX),
        required=False,
        allow_empty=False,
        max_length=limits.PLACES_MAX,
        help_text="Only these queues of the topic.",
    )
    moved_max = StrictIntegerField(
        required=False,
        min_value=0,
        max_value=2**53,
        help_text="How far the group may have read on in a queue when it is applied.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the values; refuse a value that is missing, or is another target's."""
        needed = _NEEDS[TargetKind(attrs["target"])]
        if needed is not None and needed not in attrs:
            raise serializers.ValidationError({needed: [f"is needed for {attrs['target']}"]})
        others = [
            name
            for name in _NEEDS.values()
            if name is not None and name != needed and name in attrs
        ]
        if others:
            raise serializers.ValidationError(
                {name: [f"does not belong to {attrs['target']}"] for name in others}
            )
        return attrs

    def wanted(self) -> Target:
        """Return the target that was validated."""
        values = self.validated_data
        return Target(
            kind=TargetKind(values["target"]),
            time_ms=values.get("time"),
            offset=values.get("offset"),
            shift=values.get("shift"),
            copy_from=values.get("copy_from"),
        )


class ApplyRequest(StrictSerializer):
    """Body that applies a preview."""

    token = StrictTextField(max_length=TOKEN_CHARACTERS_MAX, help_text="Of the preview.")
    reason = StrictTextField(max_length=REASON_CHARACTERS_MAX, help_text="Kept with the reset.")


class UndoRequest(StrictSerializer):
    """Body that undoes a reset."""

    undo_id = OffsetField(help_text="Of the reset, as applying it answered.")
    reason = StrictTextField(max_length=REASON_CHARACTERS_MAX, help_text="Kept with the reset.")
    moved_max = StrictIntegerField(
        required=False,
        min_value=0,
        max_value=2**53,
        help_text="How far the group may have read on in a queue; by default as for the reset.",
    )


class PlannedDocument(serializers.Serializer[Any]):
    """What a reset would do to one queue."""

    topic = serializers.CharField()
    queue = serializers.IntegerField()
    current = serializers.CharField()
    target = serializers.CharField()
    replay = serializers.CharField(help_text="Messages that come again.")
    skip = serializers.CharField(help_text="Messages that the group never gets.")
    was_clamped = serializers.BooleanField(help_text="The target lies outside of the queue.")


class PreviewDocument(serializers.Serializer[Any]):
    """What a reset would do."""

    group = serializers.CharField()
    target = serializers.CharField()
    items = PlannedDocument(many=True)
    replay = serializers.CharField()
    skip = serializers.CharField()
    is_online = serializers.BooleanField(help_text="Somebody reads for the group now.")
    moved_max = serializers.IntegerField()
    retry_lag = serializers.CharField(help_text="Messages in its retry topic, which stay there.")
    token = serializers.CharField(help_text="Applies just this, for an hour.")
    sampled_at = serializers.DateTimeField()


class ResetQueueDocument(serializers.Serializer[Any]):
    """What a reset did to one queue."""

    topic = serializers.CharField()
    queue = serializers.IntegerField()
    before = serializers.CharField()
    after = serializers.CharField()


class ResetDocument(serializers.Serializer[Any]):
    """A reset that was applied."""

    undo_id = serializers.CharField()
    group = serializers.CharField()
    target = serializers.CharField()
    by = serializers.CharField()
    reason = serializers.CharField()
    at = serializers.DateTimeField()
    state = serializers.ChoiceField(ResetState.values)
    undoes = serializers.CharField(allow_null=True, help_text="The reset that this one undid.")
    queues = ResetQueueDocument(many=True)


class ResetList(serializers.Serializer[Any]):
    """A page of resets, newest first."""

    items = ResetDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class WhatIfDocument(serializers.Serializer[Any]):
    """A sharing out that is not in force."""

    strategy = serializers.ChoiceField([strategy.value for strategy in Strategy])
    assignment = serializers.DictField(help_text="Queue numbers by topic by client id.")
    before = serializers.DictField(help_text="The same of what is in force.")
    added = serializers.ListField(child=serializers.CharField(), help_text="Made-up client ids.")
    idle = serializers.ListField(child=serializers.CharField())
    queues_moved = serializers.IntegerField(help_text="To another client than now.")
    sampled_at = serializers.DateTimeField()


def rendered_preview(found: Preview) -> dict[str, object]:
    """Build the JSON shape of a preview."""
    return {
        "group": found.group,
        "target": found.target,
        "items": [
            {
                "topic": one.topic,
                "queue": one.queue,
                "current": str(one.current),
                "target": str(one.target),
                "replay": str(one.replay),
                "skip": str(one.skip),
                "was_clamped": one.was_clamped,
            }
            for one in found.queues
        ],
        "replay": str(found.replay),
        "skip": str(found.skip),
        "is_online": found.is_online,
        "moved_max": found.moved_max,
        "retry_lag": str(found.retry_lag),
        "token": found.token,
        "sampled_at": sampled_at(),
    }


def rendered_reset(row: OffsetReset) -> dict[str, object]:
    """Build the JSON shape of a reset."""
    return {
        "undo_id": str(row.pk),
        "group": row.group,
        "target": row.target,
        "by": row.by,
        "reason": row.reason,
        "at": rfc3339(row.at),
        "state": row.state,
        "undoes": None if row.undoes_id is None else str(row.undoes_id),
        "queues": [
            {**one, "before": str(one["before"]), "after": str(one["after"])} for one in row.queues
        ],
    }


def rendered_what_if(found: WhatIf) -> dict[str, object]:
    """Build the JSON shape of a sharing out that is not in force."""
    return {
        "strategy": found.strategy.value,
        "assignment": _plain(found.assignment),
        "before": _plain(found.before),
        "added": list(found.added),
        "idle": list(found.idle),
        "queues_moved": found.queues_moved,
        "sampled_at": sampled_at(),
    }


def _plain(
    assignment: Mapping[str, Mapping[str, tuple[int, ...]]],
) -> dict[str, dict[str, list[int]]]:
    return {
        client_id: {topic: list(numbers) for topic, numbers in topics.items()}
        for client_id, topics in assignment.items()
    }
