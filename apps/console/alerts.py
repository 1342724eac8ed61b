"""Alerts as pages show them. Pure: rows in, words and numbers out; no queries."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from apps.alerts import words
from apps.alerts.judging import State
from apps.alerts.kinds import KINDS, About, Kind, Scope, written
from apps.alerts.models import Alert, AlertRule, Silence
from apps.console.templatetags import mq
from apps.core.moments import ms_of
from apps.core.pagination import rfc3339
from apps.core.phrases import Text


class AlertRow(TypedDict):
    """An alert; ages in seconds, None where there is none."""

    id: int
    rule: str
    rule_id: int | None
    kind: str
    subject: str
    is_group: bool
    severity: str
    state: str
    value: Text
    peak: Text
    threshold: Text
    since_s: int
    since: str
    unknown_s: int | None
    is_silenced: bool
    acknowledged_by: str
    note: str
    resolved: str
    lasted_s: int | None
    resolution: Text
    can_be_acknowledged: bool


def about(kind: str) -> About:
    """Return a kind in words."""
    return KINDS[Kind(kind)]


def alert_row(alert: Alert, *, now_ms: int, is_silenced: bool = False) -> AlertRow:
    """Return an alert as lists show it."""
    kind = about(alert.kind)
    since = alert.fired_at or alert.pending_at
    return {
        "id": alert.pk,
        "rule": str(words.rule_name(alert.rule_name)),
        "rule_id": alert.rule_id,
        "kind": str(kind.name),
        "subject": alert.subject,
        "is_group": kind.by_group,
        "severity": alert.severity,
        "state": alert.state,
        "value": written(alert.value, kind.unit),
        "peak": written(alert.peak, kind.unit),
        "threshold": written(alert.threshold, kind.unit),
        "since_s": age_s(since, now_ms) or 0,
        "since": rfc3339(since),
        "unknown_s": age_s(alert.unknown_since, now_ms),
        "is_silenced": is_silenced,
        "acknowledged_by": alert.acknowledged_by,
        "note": alert.note,
        "resolved": rfc3339(alert.resolved_at) if alert.resolved_at else "",
        "lasted_s": None
        if alert.resolved_at is None
        else max(0, ms_of(alert.resolved_at) - ms_of(since)) // 1000,
        "resolution": words.resolution(alert.resolution),
        "can_be_acknowledged": alert.state == State.FIRING,
    }


class RuleRow(TypedDict):
    """A rule as the list shows it."""

    id: int
    name: str
    kind: str
    whom: str
    terms: str
    severity: str
    state: str
    firing: int
    unknown_s: int | None
    looked_s: int | None


def rule_row(rule: AlertRule, *, now_ms: int, firing: int, pending: int) -> RuleRow:
    """Return a rule with how it stands."""
    kind = about(rule.kind)
    state = "quiet"
    if not rule.enabled:
        state = "disabled"
    elif rule.looked_at is None:
        state = "not looked at"
    elif firing:
        state = "firing"
    elif rule.unknown_since is not None:
        state = "unknown"
    elif pending:
        state = "pending"
    return {
        "id": rule.pk,
        "name": str(words.rule_name(rule.name)),
        "kind": str(kind.name),
        "whom": whom(rule.scope, rule.subject),
        "terms": _("%(threshold)s for %(span)s")
        % {"threshold": written(rule.threshold, kind.unit), "span": mq.span(rule.pending_s)},
        "severity": rule.severity,
        "state": state,
        "firing": firing,
        "unknown_s": age_s(rule.unknown_since, now_ms) if rule.enabled else None,
        "looked_s": age_s(rule.looked_at, now_ms),
    }


def whom(scope: str, subject: str) -> str:
    """Say which subjects a scope means."""
    if scope == Scope.ANY:
        return pgettext("subjects", "any")
    return f"{subject}…" if scope == Scope.PREFIX else subject


def silence_state(silence: Silence, *, now_ms: int) -> str:
    """Say in a word whether a silence holds."""
    if silence.ended_at is not None:
        return "ended"
    if ms_of(silence.ends_at) <= now_ms:
        return "over"
    return "active" if ms_of(silence.starts_at) <= now_ms else "to come"


def age_s(at: datetime | None, now_ms: int) -> int | None:
    """Return how long ago a moment is; a clock that was set back makes nothing lie ahead."""
    return None if at is None else max(0, now_ms - ms_of(at)) // 1000


def counted(rows: Sequence[AlertRow], *states: str) -> int:
    """Return how many alerts are in one of the states."""
    return sum(row["state"] in states for row in rows)
