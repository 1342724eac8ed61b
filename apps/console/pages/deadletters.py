"""The pages of dead letters: groups, letters, one letter, and the way to send some again.

Knows services and selectors of the dead letters; does no arithmetic on a picture. The way has three
steps, each with an address: search, look at what would go where, send.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _
from rest_framework.exceptions import ValidationError

from apps.access.asking import sight_of
from apps.access.policy import group
from apps.console import deadletters as shown
from apps.console.board import Posted
from apps.console.jobwatch import revision_of
from apps.console.pages.common import Page, Told, asking_page, console_action
from apps.console.pages.searching import given, refusal_of
from apps.console.pages.times import entered_time_ms
from apps.console.refusals import field, not_done, refusal_text, why
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.core.queries import asked_number
from apps.deadletters import selectors, services
from apps.deadletters.asked import asked_filter, check_contents, number_of
from apps.deadletters.attempts import attempts_of
from apps.deadletters.filters import IDS_MAX, LetterFilter, letters_by_id
from apps.deadletters.forms import DiscardForm, ResendForm
from apps.deadletters.models import DeadLetter, State
from apps.deadletters.permitted import job_to_cancel
from apps.deadletters.services.requests import plan_of
from apps.deadletters.targets import check_target
from apps.engine.errors import EngineError

LETTERS_SHOWN = 50
JOBS_SHOWN = 10
FIELDS = ("state", "origin_topic", "message_id", "key", "reason", "from", "to")
_NUMBER_MAX = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Letters that a query names, by number or by filter; the pairs name them again."""

    letters: QuerySet[DeadLetter]
    pairs: list[tuple[str, str]]
    criteria: Mapping[str, object]


@asking_page
def dead_letters(posted: Posted, request: HttpRequest) -> Page:
    """Show which groups have dead letters, and the last jobs, as far as their groups are shown."""
    now_ms = posted.snapshot["sampled_at_ms"]
    sight = sight_of(request)
    groups = [found for found in selectors.groups_with_letters() if sight.group(found.group)]
    return Page(
        template="console/dead_letters.html",
        values={
            "groups": [shown.group_row(found, now_ms=now_ms) for found in groups],
            "jobs_max": JOBS_SHOWN,
            "jobs": [
                shown.job_row(job, now_ms=now_ms)
                for job in selectors.jobs(sight=sight, lines_max=JOBS_SHOWN)
            ],
        },
    )


@asking_page
def group_letters(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show the dead letters of a group that a search finds, the newest first."""
    now_ms = posted.snapshot["sampled_at_ms"]
    found: list[DeadLetter] | None = None
    total, trouble = None, ""
    query = given(request.GET)
    sight = sight_of(request)
    peeks = sight.peeks(group(name))
    check_contents(query, peeks=peeks)
    try:
        before = asked_number(query, "before", lowest=0, highest=_NUMBER_MAX)
        letters = _asked_filter(query).letters(name)
        total = letters.count()
        behind = letters if before is None else letters.filter(pk__lt=before)
        found = list(behind[: LETTERS_SHOWN + 1])
    except ValidationError as refusal:
        trouble = refusal_of(refusal)
    entered = _entered(query)
    rows = (found or [])[:LETTERS_SHOWN]
    has_more = found is not None and len(found) > LETTERS_SHOWN
    return Page(
        template="console/group_letters.html",
        values={
            "name": name,
            "entered": dict(entered),
            "states": State.values,
            "search": urlencode(entered),
            "found": None
            if found is None
            else [shown.letter_row(row, now_ms=now_ms, peeks=peeks) for row in rows],
            "total": total,
            "trouble": trouble,
            "next_query": urlencode([*entered, ("before", rows[-1].pk)]) if has_more else "",
            "origins": selectors.origins(name),
            "reasons": selectors.reasons(name) if peeks else (),
            "jobs_max": JOBS_SHOWN,
            "jobs": [
                shown.job_row(job, now_ms=now_ms)
                for job in selectors.jobs(sight=sight, group=name, lines_max=JOBS_SHOWN)
            ],
        },
    )


@asking_page
def letter(posted: Posted, _request: HttpRequest, *, name: str, number: int) -> Page:
    """Show one letter: where it comes from, each attempt, what the log has of it."""
    try:
        found = selectors.letter(name, number)
    except ProblemError:
        values = {"name": name, "number": number}
        return Page(template="console/no_letter.html", values=values, status=404)
    body, trouble = None, ""
    try:
        body = selectors.body_of(found)
    except EngineError as error:
        trouble = _("The body cannot be read: %(why)s.") % {"why": why(error)}
    return Page(
        template="console/letter.html",
        values={
            "name": name,
            "row": shown.letter_row(found, now_ms=posted.snapshot["sampled_at_ms"]),
            "attempts": attempts_of(found),
            "body": None if body is None else shown.body_row(body),
            "trouble": trouble or ("" if body else _("The log does not hold it any more.")),
        },
    )


@asking_page
def plan(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show how many letters would go where, with the forms that send or discard them."""
    del posted
    lines, pairs, trouble = [], [], ""
    try:
        chosen = _chosen(name, request.GET)
        pairs = chosen.pairs
        waiting = chosen.letters.filter(state=State.WAITING)
        lines = plan_of(waiting, group=name, target="")
    except ValidationError as refusal:
        trouble = refusal_of(refusal)
    return Page(
        template="console/resend.html",
        values={
            "name": name,
            "lines": lines,
            "total": sum(line["count"] for line in lines),
            "pairs": pairs,
            "search": urlencode(pairs),
            "trouble": trouble,
            "form": ResendForm(),
        },
    )


@console_action
def resend(request: HttpRequest, *, name: str) -> Told:
    """Make a job of the chosen letters, or only count them."""
    home = f"/dead-letters/{quote(name, safe='')}"
    try:
        chosen = _chosen(name, request.POST)
    except ValidationError as refusal:
        return Told(text=refusal_of(refusal), back=f"{home}/", is_good=False)
    back = f"{home}/resend?{urlencode(chosen.pairs)}"
    form = ResendForm(request.POST)
    if not form.is_valid():
        return Told(text=_first_error(form), back=back, is_good=False)
    wish = form.wish(name)
    check_target(request, name, wish.target)
    try:
        job = services.request_resend(
            group=name,
            letters=chosen.letters,
            criteria=chosen.criteria,
            wish=wish,
            by=actor_of(request),
        )
    except EngineError as error:
        return Told(text=refusal_text(error), back=back, is_good=False)
    except ProblemError as refusal:
        return Told(text=not_done(refusal), back=back, is_good=False)
    told = (
        _("%(count)s would be sent; nothing was changed.")
        if job.dry_run
        else _("%(count)s taken by job %(job)s; it begins within seconds.")
    ) % {"count": job.total, "job": job.pk}
    return Told(text=told, back=f"/jobs/{job.pk}")


@console_action
def discard(request: HttpRequest, *, name: str) -> Told:
    """Mark the chosen letters that wait as discarded, with a reason."""
    back = f"/dead-letters/{quote(name, safe='')}/"
    form = DiscardForm(request.POST, prefix="discard")
    try:
        chosen = _chosen(name, request.POST)
    except ValidationError as refusal:
        return Told(text=refusal_of(refusal), back=back, is_good=False)
    if not form.is_valid():
        back = f"{back}resend?{urlencode(chosen.pairs)}"
        return Told(text=_first_error(form), back=back, is_good=False)
    count = services.discard(
        letters=chosen.letters,
        reason=form.cleaned_data["reason"],
        by=actor_of(request),
        criteria=chosen.criteria,
    )
    return Told(text=_("%(count)s discarded. The log keeps them.") % {"count": count}, back=back)


@asking_page
def job(posted: Posted, request: HttpRequest, *, number: int) -> Page:
    """Show how far a job is, and the letters it could not send."""
    sight = sight_of(request)
    try:
        found = selectors.job(number, sight)
    except ProblemError:
        return Page(template="console/no_job.html", values={"number": number}, status=404)
    return Page(
        template="console/job.html",
        values={
            "job": shown.job_row(found, now_ms=posted.snapshot["sampled_at_ms"]),
            "criteria": shown.criteria_text(found, peeks=sight.peeks(group(found.group))),
            "revision": revision_of(found),
            "troubles": [shown.trouble_row(trouble) for trouble in selectors.troubles(found)],
        },
    )


@console_action
def cancel(request: HttpRequest, *, number: int) -> Told:
    """Call a job off."""
    back = f"/jobs/{number}"
    try:
        found = job_to_cancel(request, number)
        services.cancel(job_id=found.pk, by=actor_of(request))
    except ProblemError as refusal:
        return Told(text=not_done(refusal), back=back, is_good=False)
    return Told(text=_("Called off: what was not sent waits again."), back=back)


def _chosen(group: str, query: QueryDict) -> Chosen:
    """Return the letters that are ticked, or else all that the search finds.

    Raises ValidationError for a search that makes no sense.
    """
    ids = query.getlist("id")[:IDS_MAX]
    if ids:
        return Chosen(
            letters=letters_by_id(group, [number_of(text) for text in ids]),
            pairs=[("id", text) for text in ids],
            criteria={"ids": ids},
        )
    entered = given(query)
    wanted = _asked_filter(entered)
    criteria = dict(wanted.criteria())
    return Chosen(
        letters=wanted.letters(group),
        pairs=_entered(entered),
        criteria={"filter": criteria} if criteria else {"all": True},
    )


def _asked_filter(query: QueryDict) -> LetterFilter:
    for name in ("from", "to"):
        entered_time_ms(query, name)
    return asked_filter(query)


def _entered(query: QueryDict) -> list[tuple[str, str]]:
    return [(name, str(query[name])) for name in FIELDS if name in query]


def _first_error(form: ResendForm | DiscardForm) -> str:
    name, errors = next(iter(form.errors.items()))
    text = str(errors[0]).rstrip(".")
    if name == "__all__":
        return _("Nothing was done: %(why)s.") % {"why": text}
    return _("Nothing was done: %(field)s: %(why)s.") % {"field": field(name), "why": text}
