"""Writes down what channels are to be told. Knows rows; sends nothing."""

from collections.abc import Iterable, Mapping, Sequence

from apps.alerts.judging import State
from apps.alerts.kinds import KINDS, Kind, severities_from, written
from apps.alerts.models import Alert, Channel, Notification
from apps.alerts.silencing import active_silences, is_silenced
from apps.core.moments import moment
from apps.core.pagination import rfc3339, rfc3339_or_none

FIRING, RESOLVED, TEST = "firing", "resolved", "test"


def tell_of_open(*, now_ms: int) -> int:
    """Tell of every alert that fires, that nobody was told of yet, and that no silence covers.

    Return how many alerts that were. One that was silenced when it began is told of when the
    silence is over and it still fires.
    """
    alerts = Alert.objects.filter(state=State.FIRING.value, is_told=False).order_by("pk")
    silences = active_silences(now_ms=now_ms)
    told = [alert for alert in alerts if not is_silenced(alert, silences)]
    _write(told, FIRING, Channel.objects.filter(enabled=True), now_ms)
    Alert.objects.filter(pk__in=[alert.pk for alert in told]).update(is_told=True)
    return len(told)


def tell_of_ended(alerts: Sequence[Alert], *, now_ms: int) -> None:
    """Tell those who were told that an alert fires that it does not any more."""
    told = [alert for alert in alerts if alert.is_told]
    _write(told, RESOLVED, Channel.objects.filter(enabled=True, tells_end=True), now_ms)


def facts_of(alert: Alert, event: str) -> dict[str, object]:
    """Return what a channel is told of an alert, as values of JSON."""
    unit = KINDS[Kind(alert.kind)].unit
    return {
        "event": event,
        "alert_id": str(alert.pk),
        "rule": alert.rule_name,
        "kind": alert.kind,
        "severity": alert.severity,
        "subject": alert.subject,
        "value": alert.value,
        "peak": alert.peak,
        "threshold": alert.threshold,
        "unit": unit,
        # For programs; whoever is a person is told in the language that is set.
        "summary": f"{alert.rule_name}: {alert.subject} has {_english(alert.value, unit)}, "
        f"from {_english(alert.threshold, unit)} on it fires",
        "pending_at": rfc3339(alert.pending_at),
        "fired_at": rfc3339_or_none(alert.fired_at),
        "resolved_at": rfc3339_or_none(alert.resolved_at),
        "resolution": alert.resolution,
        "path": f"/alerts/{alert.pk}",
    }


def trial_facts(channel: Channel, *, by: str, now_ms: int) -> Mapping[str, object]:
    """Return what a channel is told to be tried."""
    return {
        "event": TEST,
        "alert_id": None,
        "severity": channel.severity_min,
        "summary": f"A test of the channel {channel.name}, asked for by {by}",
        "channel": channel.name,
        "by": by,
        "at": rfc3339(moment(now_ms)),
        "path": f"/alerts/channels/{channel.pk}",
    }


def _english(value: float | None, unit: str) -> str:
    said = written(value, unit)
    return said if isinstance(said, str) else said.english


def _write(alerts: Sequence[Alert], event: str, channels: Iterable[Channel], now_ms: int) -> None:
    if not alerts:
        return
    now = moment(now_ms)
    Notification.objects.bulk_create(
        Notification(
            channel=channel,
            alert=alert,
            facts=facts_of(alert, event),
            next_at=now,
            created_at=now,
        )
        for channel in channels
        for alert in alerts
        if alert.severity in severities_from(channel.severity_min)
    )
