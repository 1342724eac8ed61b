"""One look at all rules: what begins, fires and ends. Knows rows; asks no engine, sends nothing.

The row of the watch is locked for it, so that two looks at once are two looks one after the other,
and the second finds everything done.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from apps.alerts import readings
from apps.alerts.judging import OPEN, Standing, State, Terms, gone, judged
from apps.alerts.kinds import is_meant
from apps.alerts.models import Alert, AlertEvent, AlertRule
from apps.alerts.readings import Values
from apps.alerts.services import telling
from apps.alerts.services.locking import locked_watch
from apps.clockwork.steps import Step
from apps.core.moments import moment, ms_of

# More open alerts of one rule tell nobody anything that the first did not.
OPEN_PER_RULE_MAX = 500

_JUDGED = (
    "state", "value", "peak", "pending_at", "fired_at", "clear_since", "unknown_since",
    "resolved_at", "resolution", "threshold", "severity", "rule_name", "is_told",
)  # fmt: skip


@dataclass(slots=True)
class _Found:
    """What one look changes; `last_ms` is when the look before was."""

    last_ms: int | None
    begun: list[Alert] = field(default_factory=list)
    changed: list[Alert] = field(default_factory=list)
    over: list[Alert] = field(default_factory=list)
    """Pending ones that never fired: they leave no trace."""
    events: list[AlertEvent] = field(default_factory=list)


def evaluate(*, now_ms: int) -> Step:
    """Look at every rule that is enabled, and write down what changed.

    Channels are told in the same transaction, by rows that a later task sends. Counts alerts that
    began, changed their state or ended.
    """
    with transaction.atomic():
        watch = locked_watch()
        rules = list(AlertRule.objects.filter(enabled=True).order_by("pk"))
        found = readings.read({rule.kind for rule in rules}, now_ms=now_ms)
        open_alerts = _open_by_rule()
        result = _Found(last_ms=_ms_or_none(watch.evaluated_at))
        for rule in rules:
            _look(rule, found[rule.kind], open_alerts.pop(rule.pk, {}), result, now_ms)
        # Those that are left are of rules nobody looks at any more.
        for alerts in open_alerts.values():
            for alert in alerts.values():
                _end(alert, result, now_ms, resolution="the rule is gone or disabled")
        _write(result)
        told = telling.tell_of_open(now_ms=now_ms)
        telling.tell_of_ended(
            [alert for alert in result.changed if alert.state == State.RESOLVED], now_ms=now_ms
        )
        AlertRule.objects.bulk_update(rules, ["looked_at", "unknown_since"])
        watch.evaluated_at = moment(now_ms)
        watch.save()
    return Step(done=len(result.begun) + len(result.events) + len(result.over) + told)


def _open_by_rule() -> dict[int | None, dict[str, Alert]]:
    found: dict[int | None, dict[str, Alert]] = {}
    for alert in Alert.objects.filter(state__in=[state.value for state in OPEN]).order_by("pk"):
        found.setdefault(alert.rule_id, {})[alert.subject] = alert
    return found


def _look(
    rule: AlertRule,
    values: Values | None,
    alerts: Mapping[str, Alert],
    result: _Found,
    now_ms: int,
) -> None:
    rule.looked_at = moment(now_ms)
    if values is None:
        rule.unknown_since = rule.unknown_since or moment(now_ms)
        for alert in alerts.values():
            _judge(rule, alert, None, result, now_ms)
        return
    rule.unknown_since = None
    for alert in alerts.values():
        if not is_meant(alert.subject, rule.scope, rule.subject):
            _end(alert, result, now_ms, resolution="the rule is about others")
        elif alert.subject in values:
            _judge(rule, alert, values[alert.subject], result, now_ms)
        else:
            _end(alert, result, now_ms, resolution="it is not there any more")
    room = OPEN_PER_RULE_MAX - len(alerts)
    for subject in _exceeding(rule, values, alerts)[: max(0, room)]:
        _begin(rule, subject, values[subject], result, now_ms)


def _exceeding(rule: AlertRule, values: Values, known: Mapping[str, Alert]) -> list[str]:
    """Return the subjects that have no alert yet and need one, the worst first."""
    found = [
        (value, subject)
        for subject, value in values.items()
        if value is not None
        and value >= rule.threshold
        and subject not in known
        and is_meant(subject, rule.scope, rule.subject)
    ]
    return [subject for value, subject in sorted(found, key=lambda one: (-one[0], one[1]))]


def _begin(rule: AlertRule, subject: str, value: float | None, result: _Found, now_ms: int) -> None:
    alert = Alert(
        rule=rule,
        rule_name=rule.name,
        kind=rule.kind,
        severity=rule.severity,
        threshold=rule.threshold,
        subject=subject,
        state=State.PENDING.value,
        value=value,
        peak=value,
        pending_at=moment(now_ms),
    )
    standing = judged(None, value, _terms(rule), now_ms=now_ms)
    assert standing is not None
    _take(alert, standing, now_ms)
    result.begun.append(alert)
    # One that fires at once was pending at the same moment.
    result.events.append(_event(alert, now_ms))


def _judge(rule: AlertRule, alert: Alert, value: float | None, result: _Found, now_ms: int) -> None:
    before = _standing(alert)
    standing = judged(before, value, _terms(rule), now_ms=now_ms, last_ms=result.last_ms)
    if standing is None:
        result.over.append(alert)
        return
    looked = _columns(alert)
    # What the rule says by now is what the alert is about.
    alert.threshold, alert.severity, alert.rule_name = rule.threshold, rule.severity, rule.name
    if value is not None:
        alert.value = value
        alert.peak = value if alert.peak is None else max(alert.peak, value)
    _take(alert, standing, now_ms)
    if _columns(alert) != looked:
        result.changed.append(alert)
    if standing.state is not before.state:
        if standing.state is State.RESOLVED:
            alert.resolution = "below the threshold"
        result.events.append(_event(alert, now_ms))


def _end(alert: Alert, result: _Found, now_ms: int, *, resolution: str) -> None:
    standing = gone(_standing(alert))
    if standing is None:
        result.over.append(alert)
        return
    alert.resolution = resolution
    _take(alert, standing, now_ms)
    result.changed.append(alert)
    result.events.append(_event(alert, now_ms))


def _columns(alert: Alert) -> list[object]:
    return [getattr(alert, name) for name in _JUDGED]


def _terms(rule: AlertRule) -> Terms:
    return Terms(threshold=rule.threshold, pending_ms=rule.pending_s * 1000)


def _standing(alert: Alert) -> Standing:
    return Standing(
        state=State(alert.state),
        since_ms=ms_of(alert.pending_at),
        clear_ms=_ms_or_none(alert.clear_since),
        unknown_ms=_ms_or_none(alert.unknown_since),
    )


def _take(alert: Alert, standing: Standing, now_ms: int) -> None:
    was_fired = alert.fired_at is not None
    alert.state = standing.state.value
    alert.pending_at = moment(standing.since_ms)
    alert.clear_since = _moment_or_none(standing.clear_ms)
    alert.unknown_since = _moment_or_none(standing.unknown_ms)
    if standing.state is State.FIRING and not was_fired:
        alert.fired_at = moment(now_ms)
    if standing.state is State.RESOLVED:
        alert.resolved_at = moment(now_ms)


def _event(alert: Alert, now_ms: int) -> AlertEvent:
    note = alert.resolution if alert.state == State.RESOLVED else ""
    return AlertEvent(
        alert=alert, at=moment(now_ms), state=alert.state, value=alert.value, note=note
    )


def _write(result: _Found) -> None:
    Alert.objects.bulk_create(result.begun)
    # All of these rows are there, and stay there while the watch is locked. An insert that becomes
    # an update takes a twentieth of the time that Django's update of many rows does.
    Alert.objects.bulk_create(
        result.changed, update_conflicts=True, unique_fields=["id"], update_fields=_JUDGED
    )
    Alert.objects.filter(pk__in=[alert.pk for alert in result.over]).delete()
    AlertEvent.objects.bulk_create(result.events)


def _ms_or_none(at: datetime | None) -> int | None:
    return None if at is None else ms_of(at)


def _moment_or_none(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else moment(at_ms)
