"""Forms of the console for a topic: its settings, making one, and taking one away."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from apps.engine import limits
from apps.engine.errors import InvalidName
from apps.engine.types import Cleanup, TopicType
from apps.topics.models import (
    EXPIRES_MS_MAX,
    EXPIRES_MS_MIN,
    LITE_TTL_MINUTES_MAX,
    LITE_TTL_MINUTES_MIN,
    QUEUE_COUNT_DEFAULT,
    RETENTION_MS_MAX,
    RETENTION_MS_MIN,
    Perm,
    Type,
)
from apps.topics.models import Cleanup as CleanupChoice
from apps.topics.services import check_name


class SettingsForm(forms.Form):
    """What of a topic can be changed. `version` is when it was last changed, as the page had it."""

    type = forms.ChoiceField(choices=Type.choices)
    perm = forms.TypedChoiceField(choices=Perm.choices, coerce=int)
    queue_count = forms.IntegerField(min_value=1, max_value=limits.QUEUE_COUNT_MAX)
    drain = forms.BooleanField(required=False)
    retention_ms = forms.IntegerField(
        min_value=RETENTION_MS_MIN, max_value=RETENTION_MS_MAX, required=False
    )
    expires_ms = forms.IntegerField(
        min_value=EXPIRES_MS_MIN, max_value=EXPIRES_MS_MAX, required=False
    )
    lite_ttl_minutes = forms.IntegerField(
        min_value=LITE_TTL_MINUTES_MIN, max_value=LITE_TTL_MINUTES_MAX, required=False
    )
    version = forms.DateTimeField(
        error_messages={"required": _("is missing: load the page again")}, required=True
    )

    def wish(self) -> dict[str, Any]:
        """Return what the service is asked for; a count of queues as it was says nothing."""
        given = self.cleaned_data
        is_resized = "queue_count" in self.changed_data or given["drain"]
        return {
            "type": TopicType(given["type"]),
            "perm": given["perm"],
            "queue_count": given["queue_count"] if is_resized else None,
            "drain": True if given["drain"] else None,
            "retention_ms": given["retention_ms"],
            "expires_ms": given["expires_ms"],
            "lite_ttl_minutes": given["lite_ttl_minutes"],
            "expected": given["version"],
        }


class NewTopicForm(forms.Form):
    """A topic to be made."""

    name = forms.CharField(max_length=limits.NAME_CHARACTERS_MAX)
    type = forms.ChoiceField(choices=Type.choices, initial=Type.MIXED)
    queue_count = forms.IntegerField(
        min_value=1, max_value=limits.QUEUE_COUNT_MAX, initial=QUEUE_COUNT_DEFAULT
    )
    cleanup = forms.ChoiceField(choices=CleanupChoice.choices, initial=CleanupChoice.DELETE)
    perm = forms.TypedChoiceField(choices=Perm.choices, coerce=int, initial=Perm.READ_WRITE)
    retention_ms = forms.IntegerField(
        min_value=RETENTION_MS_MIN, max_value=RETENTION_MS_MAX, required=False
    )
    lite_ttl_minutes = forms.IntegerField(
        min_value=LITE_TTL_MINUTES_MIN, max_value=LITE_TTL_MINUTES_MAX, required=False
    )

    def clean_name(self) -> str:
        """Return the name; refuse what the service would."""
        name: str = self.cleaned_data["name"]
        try:
            check_name(name)
        except InvalidName as refusal:
            raise ValidationError(str(refusal)) from refusal
        return name

    def wish(self) -> dict[str, Any]:
        """Return what the service is asked for."""
        given = self.cleaned_data
        return {
            "name": given["name"],
            "type": TopicType(given["type"]),
            "queue_count": given["queue_count"],
            "cleanup": Cleanup(given["cleanup"]),
            "perm": given["perm"],
            "retention_ms": given["retention_ms"],
            "lite_ttl_minutes": given["lite_ttl_minutes"],
            "expected": None,
        }
