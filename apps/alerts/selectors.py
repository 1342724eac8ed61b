"""Alerts, rules, silences and channels as they are read: ordered, limited, in few queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, Count, IntegerField, Max, Q, QuerySet, Value, When

from apps.access.policy import Sight
from apps.access.policy.sight import ALL
from apps.alerts.judging import OPEN, State
from apps.alerts.kinds import KINDS, Kind, Severity
from apps.alerts.models import (
    Alert,
    AlertEvent,
    AlertRule,
    Channel,
    Delivery,
    Notification,
    Silence,
    Watch,
)
from apps.alerts.silencing import active_silences, is_silenced
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.phrases import sentence

_OPEN = [state.value for state in OPEN]
_NUMBER_MAX = 2**63 - 1
EVENTS_MAX = 200
DELIVERIES_MAX = 50
ATTENTION_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """What needs somebody now: alerts that fire and nobody has acknowledged, the worst first.

    `looked_at` is when rules were looked at last; None where they never were.
    """

    alerts: Sequence[Alert]
    firing: int
    acknowledged: int
    pending: int
    unknown: int
    looked_at: datetime | None
    heard: Sequence[Alert] = ()
    """All that are open and not silenced, for who is shown a part of them."""

    def seen_by(self, sight: Sight) -> "Attention":
        """Return what a sight shows of it."""
        if sight.sees_everything:
            return self
        heard = [alert for alert in self.heard if is_shown(alert, sight)]
        return _attention(heard, looked_at=self.looked_at, lines_max=ATTENTION_LINES)


def attention(*, now_ms: int, lines_max: int = ATTENTION_LINES) -> Attention:
    """Return what needs somebody now; those that are silenced are left out."""
    silences = active_silences(now_ms=now_ms)
    found = list(open_alerts())
    heard = [alert for alert in found if not is_silenced(alert, silences)]
    return _attention(heard, looked_at=looked_at(), lines_max=lines_max)


def is_shown(alert: Alert, sight: Sight) -> bool:
    """Say whether a sight shows an alert: its group, or the installation it is about."""
    return sight.group(alert.subject) if KINDS[Kind(alert.kind)].by_group else sight.cluster


def _attention(heard: Sequence[Alert], *, looked_at: datetime | None, lines_max: int) -> Attention:
    firing = [alert for alert in heard if alert.state == State.FIRING]
    return Attention(
        alerts=firing[:lines_max],
        firing=len(firing),
        acknowledged=sum(alert.state == State.ACKNOWLEDGED for alert in heard),
        pending=sum(alert.state == State.PENDING for alert in heard),
        unknown=sum(alert.unknown_since is not None for alert in heard),
        looked_at=looked_at,
        heard=heard,
    )


def looked_at() -> datetime | None:
    """Return when rules were looked at last."""
    return Watch.objects.values_list("evaluated_at", flat=True).first()


def open_alerts(sight: Sight = ALL) -> QuerySet[Alert]:
    """Return the alerts that are not over: those that fire first, the worst first, then the newest.

    Few: rules have a limit of open alerts each.
    """
    return _ranked(_shown(Alert.objects.filter(state__in=_OPEN), sight))


def alerts(
    *,
    states: Sequence[str] = (),
    kind: str | None = None,
    severity: str | None = None,
    subject: str | None = None,
    before: int | None = None,
    lines_max: int,
    sight: Sight = ALL,
) -> list[Alert]:
    """Return alerts that a sight shows, the newest first; those with a number below `before`."""
    found = _shown(Alert.objects.order_by("-pk"), sight)
    if states:
        found = found.filter(state__in=states)
    if kind is not None:
        found = found.filter(kind=kind)
    if severity is not None:
        found = found.filter(severity=severity)
    if subject is not None:
        found = found.filter(subject=subject)
    if before is not None:
        found = found.filter(pk__lt=before)
    return list(found[:lines_max])


def alert(number: int, sight: Sight = ALL) -> Alert:
    """Return one alert that a sight shows; refuse any other number as `not_found`."""
    found = None
    if number <= _NUMBER_MAX:
        found = Alert.objects.select_related("rule").filter(pk=number).first()
    if found is None or not is_shown(found, sight):
        raise ProblemError("not_found", sentence("there is no alert %(number)s", number=number))
    return found


def events(found: Alert) -> list[AlertEvent]:
    """Return what became of an alert, the oldest first."""
    return list(found.events.order_by("pk")[:EVENTS_MAX])


def told(found: Alert) -> list[Notification]:
    """Return what channels were told of an alert, or are to be told."""
    return list(found.notifications.select_related("channel").order_by("pk")[:EVENTS_MAX])


def rules() -> list[AlertRule]:
    """Return the rules by name, each with `open_count` and `firing_count`."""
    return list(
        AlertRule.objects.order_by("name").annotate(
            open_count=Count("alerts", filter=Q(alerts__state__in=_OPEN)),
            firing_count=Count(
                "alerts",
                filter=Q(alerts__state__in=[State.FIRING.value, State.ACKNOWLEDGED.value]),
            ),
        )
    )


def rule(number: int) -> AlertRule:
    """Return one rule; refuse any other number as `not_found`."""
    found = None
    if number <= _NUMBER_MAX:
        found = AlertRule.objects.filter(pk=number).first()
    if found is None:
        raise ProblemError("not_found", sentence("there is no rule %(number)s", number=number))
    return found


def silences(*, before: int | None = None, lines_max: int) -> list[Silence]:
    """Return silences, the newest first, also those that are over."""
    found = Silence.objects.order_by("-pk")
    if before is not None:
        found = found.filter(pk__lt=before)
    return list(found[:lines_max])


def is_active(silence: Silence, *, now_ms: int) -> bool:
    """Say whether a silence holds now."""
    now = moment(now_ms)
    return silence.ended_at is None and silence.starts_at <= now < silence.ends_at


def channels() -> list[Channel]:
    """Return the channels by name, each with what waits, what failed and the last delivery."""
    return list(
        Channel.objects.order_by("name").annotate(
            waiting_count=Count(
                "notifications",
                filter=Q(notifications__state__in=["waiting", "sending"]),
                distinct=True,
            ),
            failed_count=Count(
                "notifications", filter=Q(notifications__state="failed"), distinct=True
            ),
            told_at=Max("notifications__ended_at", filter=Q(notifications__state="sent")),
        )
    )


def channel(number: int) -> Channel:
    """Return one channel; refuse any other number as `not_found`."""
    found = None
    if number <= _NUMBER_MAX:
        found = Channel.objects.filter(pk=number).first()
    if found is None:
        raise ProblemError("not_found", sentence("there is no channel %(number)s", number=number))
    return found


def deliveries(found: Channel, *, lines_max: int = DELIVERIES_MAX) -> list[Delivery]:
    """Return the last attempts at a channel, the newest first."""
    rows = Delivery.objects.filter(channel=found).select_related("notification")
    return list(rows.order_by("-pk")[:lines_max])


def waiting(found: Channel, *, lines_max: int = DELIVERIES_MAX) -> list[Notification]:
    """Return what a channel is yet to be told, the oldest first."""
    rows = Notification.objects.filter(channel=found, state__in=["waiting", "sending"])
    return list(rows.order_by("pk")[:lines_max])


def _shown(found: QuerySet[Alert], sight: Sight) -> QuerySet[Alert]:
    if sight.sees_everything:
        return found
    of_groups = [kind.value for kind, about in KINDS.items() if about.by_group]
    subjects = Alert.objects.filter(kind__in=of_groups).order_by().values_list("subject", flat=True)
    shown = Q(
        kind__in=of_groups,
        subject__in=[name for name in subjects.distinct() if sight.group(name)],
    )
    return found.filter(shown | ~Q(kind__in=of_groups) if sight.cluster else shown)


def _ranked(found: QuerySet[Alert]) -> QuerySet[Alert]:
    ranks = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
    states = {State.FIRING: 0, State.ACKNOWLEDGED: 1, State.PENDING: 2, State.RESOLVED: 3}
    return found.annotate(
        state_rank=Case(
            *[When(state=state.value, then=Value(rank)) for state, rank in states.items()],
            output_field=IntegerField(),
        ),
        severity_rank=Case(
            *[When(severity=name.value, then=Value(rank)) for name, rank in ranks.items()],
            output_field=IntegerField(),
        ),
    ).order_by("state_rank", "severity_rank", "-pk")
