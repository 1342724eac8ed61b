"""What callers ask of alerts: bodies and numbers, read strictly. Knows DRF's refusals, no row."""

import math
from typing import Any

from rest_framework import serializers

from apps.alerts.kinds import THRESHOLD_MAX, Kind, Scope, Severity
from apps.alerts.models import ChannelKind
from apps.alerts.models.channels import RATE_PER_MIN_MAX, RECIPIENTS_MAX, URL_CHARACTERS_MAX
from apps.alerts.models.fields import (
    NAME_CHARACTERS_MAX,
    SUBJECT_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
)
from apps.alerts.models.rules import PENDING_S_MAX
from apps.alerts.services import ChannelTerms, RuleTerms, SilenceTerms
from apps.core.exceptions import ProblemError
from apps.core.pagination import ROW_MAX
from apps.core.serializers import (
    StrictBooleanField,
    StrictChoiceField,
    StrictIntegerField,
    StrictSerializer,
    StrictTextField,
)
from apps.groups.api.serializers.settings import TimeField

_VERSION_MAX = 2**31 - 1


def number_of(text: str, what: str) -> int:
    """Return the number in an address; refuse what is none as `not_found`."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= ROW_MAX):
        raise ProblemError("not_found", f"there is no {what} {text[:40]!r}")
    return int(text)


class NumberField(serializers.FloatField):
    """A JSON number that is finite; a string and a boolean are refused."""

    def to_internal_value(self, data: Any) -> float:
        """Return the number; raise ValidationError for any other JSON type."""
        if isinstance(data, bool) or not isinstance(data, int | float) or not _is_finite(data):
            raise serializers.ValidationError("must be a number")
        return super().to_internal_value(data)


def _is_finite(data: float) -> bool:
    try:
        return math.isfinite(data)
    except OverflowError:
        return False


class AcknowledgeRequest(StrictSerializer):
    """What somebody says who looks after an alert."""

    note = StrictTextField(required=False, allow_blank=True, max_length=TEXT_CHARACTERS_MAX)


class RuleRequest(StrictSerializer):
    """A rule as it is to be."""

    name = StrictTextField(max_length=NAME_CHARACTERS_MAX)
    kind = StrictChoiceField([kind.value for kind in Kind])
    scope = StrictChoiceField([scope.value for scope in Scope], default=Scope.ANY.value)
    subject = StrictTextField(default="", allow_blank=True, max_length=SUBJECT_CHARACTERS_MAX)
    threshold = NumberField(
        max_value=THRESHOLD_MAX, help_text="More than 0, in the unit of the kind."
    )
    pending_s = StrictIntegerField(default=60, min_value=0, max_value=PENDING_S_MAX)
    severity = StrictChoiceField(
        [severity.value for severity in Severity], default=Severity.WARNING.value
    )
    enabled = StrictBooleanField(default=True)

    def terms(self) -> RuleTerms:
        """Return what the rule is to say."""
        given = {str(name): self.validated_data[name] for name in RuleRequest().fields}
        return RuleTerms(**given)


class RuleChange(RuleRequest):
    """A rule as it is to be, and the version it is made from."""

    version = StrictIntegerField(min_value=1, max_value=_VERSION_MAX)


class SilenceRequest(StrictSerializer):
    """What is to be silenced, and why."""

    kind = StrictChoiceField([*(kind.value for kind in Kind), ""], default="")
    scope = StrictChoiceField([scope.value for scope in Scope], default=Scope.ANY.value)
    subject = StrictTextField(default="", allow_blank=True, max_length=SUBJECT_CHARACTERS_MAX)
    starts_at = TimeField(required=False, help_text="Now when left out.")
    ends_at = TimeField()
    reason = StrictTextField(max_length=TEXT_CHARACTERS_MAX)

    def terms(self, *, now_ms: int) -> SilenceTerms:
        """Return what is to be silenced."""
        given = self.validated_data
        return SilenceTerms(
            kind=given["kind"],
            scope=given["scope"],
            subject=given["subject"],
            starts_ms=given.get("starts_at", now_ms),
            ends_ms=given["ends_at"],
            reason=given["reason"],
        )


class ChannelRequest(StrictSerializer):
    """A channel as it is to be."""

    name = StrictTextField(max_length=NAME_CHARACTERS_MAX)
    kind = StrictChoiceField(ChannelKind.values)
    url = StrictTextField(
        default="",
        allow_blank=True,
        max_length=URL_CHARACTERS_MAX,
        write_only=True,
        help_text="Where to post to. Empty in a change keeps what is there.",
    )
    recipients = serializers.ListField(
        child=StrictTextField(max_length=254), default=list, max_length=RECIPIENTS_MAX
    )
    severity_min = StrictChoiceField(
        [severity.value for severity in Severity], default=Severity.INFO.value
    )
    rate_per_min = StrictIntegerField(default=30, min_value=1, max_value=RATE_PER_MIN_MAX)
    tells_end = StrictBooleanField(default=True)
    enabled = StrictBooleanField(default=True)

    def terms(self) -> ChannelTerms:
        """Return what the channel is to be."""
        given = {str(name): self.validated_data[name] for name in ChannelRequest().fields}
        given["recipients"] = tuple(given["recipients"])
        return ChannelTerms(**given)


class ChannelChange(ChannelRequest):
    """A channel as it is to be, and the version it is made from."""

    version = StrictIntegerField(min_value=1, max_value=_VERSION_MAX)
