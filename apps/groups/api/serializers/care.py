"""Care of a queue, as it is asked for and answered."""

from typing import Any

from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.core.serializers import StrictSerializer, StrictTextField
from apps.engine.caretypes import CareAct, CareResult, Suspension
from apps.groups.api.serializers.offsets import OffsetField
from apps.groups.models.fields import REASON_CHARACTERS_MAX


class SuspendRequest(StrictSerializer):
    """Body of a suspension, and of its end."""

    reason = StrictTextField(max_length=REASON_CHARACTERS_MAX, help_text="Kept with the act.")
    expected_offset = OffsetField(
        required=False, help_text="Of the head; refused as `head_moved` when it is another."
    )


class PassRequest(StrictSerializer):
    """Body of a skip and of a park."""

    reason = StrictTextField(max_length=REASON_CHARACTERS_MAX, help_text="Kept with the act.")
    expected_offset = OffsetField(
        help_text="Of the head; refused as `head_moved` when it is another."
    )


class SuspensionDocument(serializers.Serializer[Any]):
    """A queue gives a group nothing."""

    since = serializers.DateTimeField()
    by = serializers.CharField()
    reason = serializers.CharField()


class CareDocument(serializers.Serializer[Any]):
    """What is the case after an act."""

    act = serializers.ChoiceField([act.value for act in CareAct])
    group = serializers.CharField()
    topic = serializers.CharField()
    queue = serializers.IntegerField()
    head = serializers.CharField(help_text="Offset of the first message that is not done now.")
    is_repeat = serializers.BooleanField(help_text="It was done before; nothing was changed.")
    suspension = SuspensionDocument(allow_null=True)
    dead_letter_offset = serializers.CharField(
        allow_null=True, help_text="Of a message parked just now, in the group's dead letters."
    )


def rendered_suspension(found: Suspension | None) -> dict[str, object] | None:
    """Build the JSON shape of a suspension."""
    if found is None:
        return None
    return {"since": rfc3339(moment(found.at_ms)), "by": found.by, "reason": found.reason}


def rendered_care(result: CareResult) -> dict[str, object]:
    """Build the JSON shape of what is the case after an act."""
    letter = result.dead_letter_offset
    return {
        "act": result.act.value,
        "group": result.group,
        "topic": result.topic,
        "queue": result.queue,
        "head": str(result.head),
        "is_repeat": result.is_repeat,
        "suspension": rendered_suspension(result.suspension),
        "dead_letter_offset": None if letter is None else str(letter),
    }
