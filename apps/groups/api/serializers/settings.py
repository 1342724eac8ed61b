"""What is decided about a group, as it is asked for and answered."""

from datetime import datetime
from typing import Any, cast

from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.core.moments import moment, ms_of
from apps.core.pagination import rfc3339
from apps.core.serializers import (
    StrictBooleanField,
    StrictChoiceField,
    StrictIntegerField,
    StrictSerializer,
    StrictTextField,
)
from apps.engine.failuretypes import RetryPolicy
from apps.engine.litetypes import LiteModel
from apps.engine.types import ConsumeFrom, GroupSpec, Strategy
from apps.groups.catalog import fixed_of, is_fixed, json_of
from apps.groups.decisions import (
    ACCESS_LOCK_MS_MAX,
    INNER_STRATEGIES,
    RETRY_DELAY_MS_MAX,
    RETRY_DELAYS_MAX,
    RETRY_MAX_MAX,
    ROOM_CHARACTERS_MAX,
    ROOMS_MAX,
)
from apps.groups.services import GroupValues

# The last millisecond of the year 9999, the last that can be written down.
TIME_MS_MAX = 253_402_300_799_999
_STRATEGIES = [strategy.value for strategy in Strategy]
_POLICIES = [policy.value for policy in RetryPolicy]
_LITE_MODELS = [model.value for model in LiteModel]
_INNER = [strategy.value for strategy in INNER_STRATEGIES]


@extend_schema_field({"oneOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}]})
class TimeField(serializers.Field[int, Any, str, Any]):
    """RFC 3339 with an offset, or milliseconds since 1970; read as the latter."""

    def to_internal_value(self, data: Any) -> int:
        """Return milliseconds; raise ValidationError for anything that is no moment."""
        if isinstance(data, str):
            data = _ms_of_text(data)
        if isinstance(data, bool) or not isinstance(data, int) or not 0 <= data <= TIME_MS_MAX:
            raise serializers.ValidationError(
                "must be a time in RFC 3339 with an offset, or milliseconds since 1970"
            )
        return data

    def to_representation(self, value: Any) -> str:
        """Write milliseconds as RFC 3339."""
        return rfc3339(moment(value))


@extend_schema_field(
    {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "integer"}},
        },
    }
)
class FixedField(serializers.Field[dict[str, Any], Any, Any, Any]):
    """Queue numbers by topic by client id; what the names and numbers may be is the service's."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return JSON of that shape; raise ValidationError for any other."""
        if not is_fixed(data):
            raise serializers.ValidationError("must be queue numbers by topic by client id")
        fixed: dict[str, Any] = data
        return fixed

    def to_representation(self, value: Any) -> Any:
        """Return it as it is."""
        return value


class GroupChange(StrictSerializer):
    """Body of a PUT. What is left out keeps its value, or takes the default."""

    enabled = StrictBooleanField(
        required=False, help_text="False refuses every request of the group. True by default."
    )
    ordered = StrictBooleanField(
        required=False,
        help_text="Whoever pulls or commits must hold the queue's lock. False by default.",
    )
    strategy = StrictChoiceField(
        _STRATEGIES, required=False, allow_null=True, help_text="Null follows the members."
    )
    fixed = FixedField(required=False, help_text="For CONFIG: queue numbers by topic by client id.")
    rooms = serializers.ListField(
        child=StrictTextField(max_length=ROOM_CHARACTERS_MAX),
        required=False,
        max_length=ROOMS_MAX,
        help_text="For MACHINE_ROOM: the rooms whose queues are shared out.",
    )
    inner = StrictChoiceField(
        _INNER,
        required=False,
        help_text="What is done inside a room. AVG by default.",
    )
    consume_from = StrictChoiceField(
        [begin.value for begin in ConsumeFrom],
        required=False,
        help_text="Where the group begins in a queue it has no progress in; `first` by default.",
    )
    consume_from_time = TimeField(
        required=False, allow_null=True, help_text="For `timestamp`: RFC 3339 or milliseconds."
    )
    retry_max = StrictIntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=RETRY_MAX_MAX,
        help_text="Null is 16, and without limit where ordered.",
    )
    retry_policy = StrictChoiceField(
        _POLICIES,
        required=False,
        help_text="How long a failed message waits; `levels` by default, from delay level 3 on. "
        "Any but `custom` without a list has none.",
    )
    retry_delays_ms = serializers.ListField(
        child=StrictIntegerField(min_value=0, max_value=RETRY_DELAY_MS_MAX),
        required=False,
        max_length=RETRY_DELAYS_MAX,
        help_text="For `custom`: one delay a failure; the last one repeats.",
    )
    access_lock_ms = StrictIntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=ACCESS_LOCK_MS_MAX,
        help_text="How long a new owner of a queue waits for the old one; null is not at all.",
    )
    lite_model = StrictChoiceField(
        _LITE_MODELS,
        required=False,
        help_text="SHARED lets several clients subscribe to one lite topic, EXCLUSIVE the newest "
        "alone. SHARED by default.",
    )

    def values(self) -> GroupValues:
        """Return what was validated as the service takes it."""
        given = dict(self.validated_data)
        if given.get("strategy") is not None:
            given["strategy"] = Strategy(given["strategy"])
        if "inner" in given:
            given["inner"] = Strategy(given["inner"])
        if "fixed" in given:
            given["fixed"] = fixed_of(given["fixed"])
        if "rooms" in given:
            given["rooms"] = tuple(given["rooms"])
        if "retry_policy" in given:
            given["retry_policy"] = RetryPolicy(given["retry_policy"])
        if "lite_model" in given:
            given["lite_model"] = LiteModel(given["lite_model"])
        if "retry_delays_ms" in given:
            given["retry_delays_ms"] = tuple(given["retry_delays_ms"])
        if "consume_from" in given:
            given["consume_from"] = ConsumeFrom(given["consume_from"])
        if "consume_from_time" in given:
            given["consume_from_ms"] = given.pop("consume_from_time")
        return cast("GroupValues", given)


class SettingsDocument(serializers.Serializer[Any]):
    """What is decided about a group; defaults where nobody decided anything."""

    enabled = serializers.BooleanField()
    ordered = serializers.BooleanField()
    strategy = serializers.ChoiceField(_STRATEGIES, allow_null=True)
    fixed = serializers.DictField()
    rooms = serializers.ListField(child=serializers.CharField())
    inner = serializers.ChoiceField(_INNER)
    consume_from = serializers.ChoiceField([begin.value for begin in ConsumeFrom])
    consume_from_time = serializers.DateTimeField(allow_null=True)
    retry_max = serializers.IntegerField(allow_null=True)
    retry_policy = serializers.ChoiceField(_POLICIES)
    retry_delays_ms = serializers.ListField(child=serializers.IntegerField())
    access_lock_ms = serializers.IntegerField(allow_null=True)
    lite_model = serializers.ChoiceField(_LITE_MODELS)


def rendered_settings(spec: GroupSpec) -> dict[str, object]:
    """Build the JSON shape of what is decided about a group."""
    begin_ms = spec.consume_from_ms
    return {
        "enabled": spec.enabled,
        "ordered": spec.ordered,
        "strategy": spec.strategy,
        "fixed": json_of(spec.fixed),
        "rooms": list(spec.rooms),
        "inner": spec.inner,
        "consume_from": spec.consume_from,
        "consume_from_time": None if begin_ms is None else rfc3339(moment(begin_ms)),
        "retry_max": spec.retry_max,
        "retry_policy": spec.retry_policy,
        "retry_delays_ms": list(spec.retry_delays_ms),
        "access_lock_ms": spec.access_lock_ms,
        "lite_model": spec.lite_model,
    }


def _ms_of_text(text: str) -> int | None:
    try:
        found: datetime | None = parse_datetime(text)
    except ValueError:
        return None
    return None if found is None or found.tzinfo is None else ms_of(found)
