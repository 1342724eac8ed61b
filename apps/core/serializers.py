"""Input shapes that take nothing but what they name. Knows DRF, no model and no engine."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers


class StrictIntegerField(serializers.IntegerField):
    """A JSON integer; a string, a float and a boolean are refused."""

    def to_internal_value(self, data: Any) -> int:
        """Return the integer; raise ValidationError for any other JSON type."""
        if not isinstance(data, int) or isinstance(data, bool):
            raise serializers.ValidationError("must be an integer")
        return super().to_internal_value(data)


class StrictBooleanField(serializers.BooleanField):
    """A JSON boolean; a word or a number that might mean one is refused."""

    def to_internal_value(self, data: Any) -> bool:
        """Return the boolean; raise ValidationError for any other JSON type."""
        if not isinstance(data, bool):
            raise serializers.ValidationError("must be true or false")
        return data


class StrictTextField(serializers.CharField):
    """A JSON string; a number is refused, and nothing is cut off its ends."""

    def __init__(self, **options: Any) -> None:
        """Take the options of a CharField."""
        super().__init__(**{"trim_whitespace": False, **options})

    def to_internal_value(self, data: Any) -> str:
        """Return the string; raise ValidationError for any other JSON type."""
        if not isinstance(data, str):
            raise serializers.ValidationError("must be a string")
        return super().to_internal_value(data)


class StrictChoiceField(serializers.ChoiceField):
    """A JSON string out of a closed set."""

    def to_internal_value(self, data: Any) -> str:
        """Return the string; raise ValidationError naming the choices."""
        if not isinstance(data, str) or data not in self.choices:
            raise serializers.ValidationError("must be one of " + ", ".join(self.choices))
        return data


class StrictSerializer(serializers.Serializer[Any]):
    """A JSON object; a field it does not name is refused."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the validated values; raise ValidationError with one entry for each bad field."""
        if not isinstance(data, Mapping):
            raise serializers.ValidationError({"non_field_errors": ["must be a JSON object"]})
        unknown = {
            str(name): ["is not a field of this request"]
            for name in data
            if name not in self.fields
        }
        try:
            values: dict[str, Any] = super().to_internal_value(data)
        except serializers.ValidationError as error:
            detail = error.detail if isinstance(error.detail, dict) else {}
            raise serializers.ValidationError({**detail, **unknown}) from error
        if unknown:
            raise serializers.ValidationError(unknown)
        return values
