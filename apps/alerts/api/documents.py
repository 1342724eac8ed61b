"""Shapes of alerts, rules, silences and channels on the wire, and how rows become them."""

from typing import Any

from rest_framework import serializers

from apps.alerts import selectors
from apps.alerts.judging import State
from apps.alerts.kinds import KINDS, Kind, Scope, Severity
from apps.alerts.models import (
    Alert,
    AlertEvent,
    AlertRule,
    Channel,
    ChannelKind,
    Delivery,
    Notification,
    NotificationState,
    Silence,
)
from apps.alerts.outbound.targets import shown
from apps.core.pagination import rfc3339, rfc3339_or_none

_KINDS = [kind.value for kind in Kind]
_SCOPES = [scope.value for scope in Scope]
_SEVERITIES = [severity.value for severity in Severity]
_STATES = [state.value for state in State]


class AlertDocument(serializers.Serializer[Any]):
    """An alert; what is not known, or was not yet, is null."""

    id = serializers.CharField()
    rule_id = serializers.CharField(allow_null=True, help_text="Null when the rule is gone.")
    rule = serializers.CharField()
    kind = serializers.ChoiceField(_KINDS)
    severity = serializers.ChoiceField(_SEVERITIES)
    subject = serializers.CharField(help_text="A group, or `broker`.")
    state = serializers.ChoiceField(_STATES)
    value = serializers.FloatField(allow_null=True, help_text="The last one known.")
    peak = serializers.FloatField(allow_null=True)
    threshold = serializers.FloatField()
    unit = serializers.CharField()
    pending_at = serializers.DateTimeField()
    fired_at = serializers.DateTimeField(allow_null=True)
    unknown_since = serializers.DateTimeField(
        allow_null=True, help_text="Since when the value is not known."
    )
    acknowledged_at = serializers.DateTimeField(allow_null=True)
    acknowledged_by = serializers.CharField(allow_null=True)
    note = serializers.CharField()
    resolved_at = serializers.DateTimeField(allow_null=True)
    resolution = serializers.CharField(help_text="Why it is over; empty before.")


class AlertEventDocument(serializers.Serializer[Any]):
    """One change of an alert."""

    at = serializers.DateTimeField()
    state = serializers.ChoiceField(_STATES)
    value = serializers.FloatField(allow_null=True)
    by = serializers.CharField(allow_null=True)
    note = serializers.CharField()


class NotificationDocument(serializers.Serializer[Any]):
    """What a channel was told, or is to be told."""

    id = serializers.CharField()
    channel = serializers.CharField()
    event = serializers.CharField()
    state = serializers.ChoiceField(NotificationState.choices)
    attempts = serializers.IntegerField()
    error = serializers.CharField()
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class WholeAlertDocument(AlertDocument):
    """An alert with all that became of it."""

    events = AlertEventDocument(many=True)
    told = NotificationDocument(many=True)


class AlertList(serializers.Serializer[Any]):
    """A page of alerts, the newest first."""

    items = AlertDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()
    looked_at = serializers.DateTimeField(
        allow_null=True, help_text="When rules were looked at last."
    )


class RuleDocument(serializers.Serializer[Any]):
    """A rule."""

    id = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(_KINDS)
    unit = serializers.CharField()
    scope = serializers.ChoiceField(_SCOPES)
    subject = serializers.CharField()
    threshold = serializers.FloatField()
    pending_s = serializers.IntegerField()
    severity = serializers.ChoiceField(_SEVERITIES)
    enabled = serializers.BooleanField()
    version = serializers.IntegerField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_by = serializers.CharField()
    updated_at = serializers.DateTimeField()
    looked_at = serializers.DateTimeField(allow_null=True)
    unknown_since = serializers.DateTimeField(
        allow_null=True, help_text="Since when there is nothing to look at."
    )


class RuleList(serializers.Serializer[Any]):
    """All rules by name."""

    items = RuleDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class SilenceDocument(serializers.Serializer[Any]):
    """A silence."""

    id = serializers.CharField()
    kind = serializers.ChoiceField([*_KINDS, ""], help_text="Empty is any.")
    scope = serializers.ChoiceField(_SCOPES)
    subject = serializers.CharField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField()
    is_active = serializers.BooleanField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True, help_text="When it was ended early.")
    ended_by = serializers.CharField(allow_null=True)


class SilenceList(serializers.Serializer[Any]):
    """A page of silences, the newest first."""

    items = SilenceDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class ChannelDocument(serializers.Serializer[Any]):
    """A channel; of its address as much as anybody may see."""

    id = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(ChannelKind.values)
    address = serializers.CharField(help_text="What follows the host of an address is left out.")
    recipients = serializers.ListField(child=serializers.CharField())
    severity_min = serializers.ChoiceField(_SEVERITIES)
    rate_per_min = serializers.IntegerField()
    tells_end = serializers.BooleanField()
    enabled = serializers.BooleanField()
    version = serializers.IntegerField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_by = serializers.CharField()
    updated_at = serializers.DateTimeField()


class ChannelList(serializers.Serializer[Any]):
    """All channels by name."""

    items = ChannelDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class DeliveryDocument(serializers.Serializer[Any]):
    """One attempt at a channel."""

    notification_id = serializers.CharField()
    event = serializers.CharField()
    at = serializers.DateTimeField()
    is_good = serializers.BooleanField()
    status = serializers.IntegerField(allow_null=True)
    duration_ms = serializers.IntegerField()
    error = serializers.CharField()


class DeliveryList(serializers.Serializer[Any]):
    """The last attempts at a channel, the newest first."""

    items = DeliveryDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


def rendered_alert(alert: Alert) -> dict[str, object]:
    """Build the JSON shape of an alert."""
    return {
        "id": str(alert.pk),
        "rule_id": None if alert.rule_id is None else str(alert.rule_id),
        "rule": alert.rule_name,
        "kind": alert.kind,
        "severity": alert.severity,
        "subject": alert.subject,
        "state": alert.state,
        "value": alert.value,
        "peak": alert.peak,
        "threshold": alert.threshold,
        "unit": KINDS[Kind(alert.kind)].unit,
        "pending_at": rfc3339(alert.pending_at),
        "fired_at": rfc3339_or_none(alert.fired_at),
        "unknown_since": rfc3339_or_none(alert.unknown_since),
        "acknowledged_at": rfc3339_or_none(alert.acknowledged_at),
        "acknowledged_by": alert.acknowledged_by or None,
        "note": alert.note,
        "resolved_at": rfc3339_or_none(alert.resolved_at),
        "resolution": alert.resolution,
    }


def rendered_event(event: AlertEvent) -> dict[str, object]:
    """Build the JSON shape of a change of an alert."""
    return {
        "at": rfc3339(event.at),
        "state": event.state,
        "value": event.value,
        "by": event.by or None,
        "note": event.note,
    }


def rendered_notification(found: Notification) -> dict[str, object]:
    """Build the JSON shape of a notification."""
    return {
        "id": str(found.pk),
        "channel": found.channel.name,
        "event": str(found.facts.get("event", "")),
        "state": found.state,
        "attempts": found.attempts,
        "error": found.error,
        "created_at": rfc3339(found.created_at),
        "ended_at": rfc3339_or_none(found.ended_at),
    }


def rendered_rule(rule: AlertRule) -> dict[str, object]:
    """Build the JSON shape of a rule."""
    return {
        "id": str(rule.pk),
        "name": rule.name,
        "kind": rule.kind,
        "unit": KINDS[Kind(rule.kind)].unit,
        "scope": rule.scope,
        "subject": rule.subject,
        "threshold": rule.threshold,
        "pending_s": rule.pending_s,
        "severity": rule.severity,
        "enabled": rule.enabled,
        "version": rule.version,
        "created_by": rule.created_by,
        "created_at": rfc3339(rule.created_at),
        "updated_by": rule.updated_by,
        "updated_at": rfc3339(rule.updated_at),
        "looked_at": rfc3339_or_none(rule.looked_at),
        "unknown_since": rfc3339_or_none(rule.unknown_since),
    }


def rendered_silence(silence: Silence, *, now_ms: int) -> dict[str, object]:
    """Build the JSON shape of a silence."""
    return {
        "id": str(silence.pk),
        "kind": silence.kind,
        "scope": silence.scope,
        "subject": silence.subject,
        "starts_at": rfc3339(silence.starts_at),
        "ends_at": rfc3339(silence.ends_at),
        "reason": silence.reason,
        "is_active": selectors.is_active(silence, now_ms=now_ms),
        "created_by": silence.created_by,
        "created_at": rfc3339(silence.created_at),
        "ended_at": rfc3339_or_none(silence.ended_at),
        "ended_by": silence.ended_by or None,
    }


def rendered_channel(channel: Channel) -> dict[str, object]:
    """Build the JSON shape of a channel."""
    return {
        "id": str(channel.pk),
        "name": channel.name,
        "kind": channel.kind,
        "address": shown(channel.url) if channel.url else "",
        "recipients": channel.recipients,
        "severity_min": channel.severity_min,
        "rate_per_min": channel.rate_per_min,
        "tells_end": channel.tells_end,
        "enabled": channel.enabled,
        "version": channel.version,
        "created_by": channel.created_by,
        "created_at": rfc3339(channel.created_at),
        "updated_by": channel.updated_by,
        "updated_at": rfc3339(channel.updated_at),
    }


def rendered_delivery(delivery: Delivery) -> dict[str, object]:
    """Build the JSON shape of an attempt."""
    return {
        "notification_id": str(delivery.notification_id),
        "event": str(delivery.notification.facts.get("event", "")),
        "at": rfc3339(delivery.at),
        "is_good": delivery.is_good,
        "status": delivery.status,
        "duration_ms": delivery.duration_ms,
        "error": delivery.error,
    }
