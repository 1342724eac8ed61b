"""Pages of rules and silences. Knows forms, selectors and services."""

from functools import partial

from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.alerts import selectors, services, words
from apps.alerts.forms import RuleForm, SilenceForm, rule_values
from apps.alerts.kinds import KINDS
from apps.alerts.models import AlertRule
from apps.console import alerts as shown
from apps.console.pages.common import Page, Told
from apps.console.pages.rows import rows_action, rows_page, said, taken, tried
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.engine.clock import SystemClock

ALERTS_SHOWN = 20
SILENCES_SHOWN = 100
_NUMBER_MAX = 2**62
_HOME, _SILENCES = "/alerts/rules", "/alerts/silences"


@rows_page
def rules(_request: HttpRequest) -> Page:
    """Show every rule and how it stands."""
    now_ms = SystemClock().wall_ms()
    return Page(
        template="console/alerts/rules.html",
        values={
            "rules": [
                shown.rule_row(
                    rule,
                    now_ms=now_ms,
                    firing=rule.firing_count,  # type: ignore[attr-defined]
                    pending=rule.open_count - rule.firing_count,  # type: ignore[attr-defined]
                )
                for rule in selectors.rules()
            ]
        },
    )


@rows_page
def new_rule(_request: HttpRequest) -> Page:
    """Show the form of a rule."""
    return _rule_page(None, RuleForm())


@rows_page
def rule(_request: HttpRequest, *, number: int) -> Page:
    """Show one rule, to be changed, and the last alerts it found."""
    found = selectors.rule(number)
    return _rule_page(found, RuleForm(initial=rule_values(found)))


@rows_action
def create_rule(request: HttpRequest) -> Told | Page:
    """Make a rule."""
    form = RuleForm(request.POST)

    def act() -> Told:
        made = services.create_rule(
            terms=form.terms(), by=actor_of(request), now_ms=SystemClock().wall_ms()
        )
        return Told(text=_("The rule is made; it is looked at within seconds."), back=_at(made.pk))

    return taken(form, act, again=partial(_rule_page, None))


@rows_action
def change_rule(request: HttpRequest, *, number: int) -> Told | Page:
    """Change a rule."""
    try:
        found = selectors.rule(number)
    except ProblemError as refusal:
        return Told(text=said(refusal), back=_HOME, is_good=False)
    form = RuleForm(request.POST)

    def act() -> Told:
        services.change_rule(
            rule_id=found.pk,
            terms=form.terms(),
            version=form.cleaned_data["version"] or 0,
            by=actor_of(request),
            now_ms=SystemClock().wall_ms(),
        )
        return Told(text=_("The rule is changed."), back=_at(number))

    return taken(form, act, again=partial(_rule_page, found))


@rows_action
def delete_rule(request: HttpRequest, *, number: int) -> Told:
    """Delete a rule."""

    def act() -> Told:
        services.delete_rule(rule_id=min(number, _NUMBER_MAX), by=actor_of(request))
        return Told(text=_("The rule is deleted; its open alerts end."), back=_HOME)

    return tried(act, back=_HOME)


@rows_page
def silences(request: HttpRequest) -> Page:
    """Show silences and the form of one; the query may say what is to be silenced."""
    wanted = {
        name: request.GET[name] for name in ("kind", "scope", "subject") if name in request.GET
    }
    return _silences_page(SilenceForm(initial=wanted))


@rows_action
def create_silence(request: HttpRequest) -> Told | Page:
    """Silence some alerts for a time."""
    now_ms = SystemClock().wall_ms()
    form = SilenceForm(request.POST)

    def act() -> Told:
        services.create_silence(
            terms=form.terms(now_ms=now_ms), by=actor_of(request), now_ms=now_ms
        )
        return Told(text=_("Silenced: alerts go on, and nobody is told."), back=_SILENCES)

    return taken(form, act, again=_silences_page)


@rows_action
def end_silence(request: HttpRequest, *, number: int) -> Told:
    """End a silence before its time."""

    def act() -> Told:
        services.end_silence(
            silence_id=min(number, _NUMBER_MAX),
            by=actor_of(request),
            now_ms=SystemClock().wall_ms(),
        )
        return Told(text=_("Ended: what still fires is told of."), back=_SILENCES)

    return tried(act, back=_SILENCES)


def _at(number: int) -> str:
    return f"/alerts/rules/{number}"


def _rule_page(found: AlertRule | None, form: RuleForm, *, status: int = 200) -> Page:
    now_ms = SystemClock().wall_ms()
    lately = [] if found is None else found.alerts.order_by("-pk")[:ALERTS_SHOWN]
    return Page(
        template="console/alerts/rule.html",
        values={
            "rule": found,
            "name": "" if found is None else words.rule_name(found.name),
            "form": form,
            "kinds": list(KINDS.values()),
            "lately_max": ALERTS_SHOWN,
            "lately": [shown.alert_row(alert, now_ms=now_ms) for alert in lately],
        },
        status=status,
    )


def _silences_page(form: SilenceForm, *, status: int = 200) -> Page:
    now_ms = SystemClock().wall_ms()
    return Page(
        template="console/alerts/silences.html",
        values={
            "form": form,
            "silences_max": SILENCES_SHOWN,
            "silences": [
                {
                    "row": silence,
                    "state": shown.silence_state(silence, now_ms=now_ms),
                    "whom": shown.whom(silence.scope, silence.subject),
                    "kind": shown.about(silence.kind).name if silence.kind else _("any alert"),
                }
                for silence in selectors.silences(lines_max=SILENCES_SHOWN)
            ],
        },
        status=status,
    )
