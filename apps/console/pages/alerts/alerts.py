"""Pages of alerts: what is open, one alert, what is over. Knows selectors and services."""

from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils.translation import gettext as _
from rest_framework.exceptions import ValidationError

from apps.access.asking import sight_of
from apps.alerts import selectors, services
from apps.alerts.judging import State
from apps.alerts.kinds import Kind, Severity
from apps.alerts.models.fields import KIND_CHOICES
from apps.alerts.silencing import active_silences, is_silenced
from apps.console import alerts as shown
from apps.console.attention import LOOKED_S_MAX
from apps.console.pages.common import Page, Told
from apps.console.pages.rows import rows_action, rows_page, said
from apps.console.pages.searching import given
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.core.queries import asked_number
from apps.engine.clock import SystemClock
from apps.engine.errors import EngineError

LINES = 100
_NUMBER_MAX = 2**62


@rows_page
def alerts(request: HttpRequest) -> Page:
    """Show the alerts that are not over, those that fire first."""
    now_ms = SystemClock().wall_ms()
    silences = active_silences(now_ms=now_ms)
    looked_s = shown.age_s(selectors.looked_at(), now_ms)
    rows = [
        shown.alert_row(alert, now_ms=now_ms, is_silenced=is_silenced(alert, silences))
        for alert in selectors.open_alerts(sight_of(request))
    ]
    return Page(
        template="console/alerts/alerts.html",
        values={
            "rows": rows,
            "firing": shown.counted(rows, State.FIRING),
            "acknowledged": shown.counted(rows, State.ACKNOWLEDGED),
            "pending": shown.counted(rows, State.PENDING),
            "unknown": sum(row["unknown_s"] is not None for row in rows),
            "looked_s": looked_s,
            "is_old": looked_s is not None and looked_s > LOOKED_S_MAX,
        },
    )


@rows_page
def history(request: HttpRequest) -> Page:
    """Show the alerts that are over, the newest first."""
    now_ms = SystemClock().wall_ms()
    entered = given(request.GET)
    kind, severity = entered.get("kind"), entered.get("severity")
    subject = entered.get("subject", "").replace("\0", "") or None
    trouble, before = "", None
    try:
        before = asked_number(entered, "before", lowest=0, highest=_NUMBER_MAX)
    except ValidationError:
        trouble = _("The address names no page of this list; these are the newest.")
    found = selectors.alerts(
        states=[State.RESOLVED.value],
        kind=kind if kind in list(Kind) else None,
        severity=severity if severity in list(Severity) else None,
        subject=subject,
        before=before,
        lines_max=LINES + 1,
        sight=sight_of(request),
    )
    search = [(name, entered[name]) for name in ("kind", "severity", "subject") if name in entered]
    rows = found[:LINES]
    return Page(
        template="console/alerts/history.html",
        values={
            "rows": [shown.alert_row(alert, now_ms=now_ms) for alert in rows],
            "kinds": KIND_CHOICES,
            "severities": [one.value for one in Severity],
            "entered": dict(search),
            "trouble": trouble,
            "next_query": urlencode([*search, ("before", rows[-1].pk)])
            if len(found) > LINES
            else "",
        },
    )


@rows_page
def alert(request: HttpRequest, *, number: int) -> Page:
    """Show one alert: how it stands, what became of it, who was told."""
    now_ms = SystemClock().wall_ms()
    found = selectors.alert(number, sight_of(request))
    silenced = is_silenced(found, active_silences(now_ms=now_ms))
    return Page(
        template="console/alerts/alert.html",
        values={
            "alert": found,
            "row": shown.alert_row(found, now_ms=now_ms, is_silenced=silenced),
            "about": shown.about(found.kind),
            "events_max": selectors.EVENTS_MAX,
            "events": selectors.events(found),
            "told": selectors.told(found),
        },
    )


@rows_action
def acknowledge(request: HttpRequest, *, number: int) -> Told:
    """Say that somebody looks after an alert."""
    back = "/alerts" if request.POST.get("back") == "list" else f"/alerts/{number}"
    try:
        services.acknowledge(
            alert_id=min(number, _NUMBER_MAX),
            note=request.POST.get("note", "").replace("\0", ""),
            by=actor_of(request),
            now_ms=SystemClock().wall_ms(),
        )
    except (ProblemError, EngineError) as refusal:
        return Told(text=said(refusal), back=back, is_good=False)
    return Told(text=_("Acknowledged: it stays open until it is over."), back=back)
