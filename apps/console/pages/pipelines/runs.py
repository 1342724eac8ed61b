"""The pages of runs: the list, one run, and the buttons that ask for one and call one off."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _
from rest_framework.exceptions import ValidationError

from apps.access.asking import access_of, sight_of
from apps.access.policy import Action, Decision, Kind
from apps.console.board import Posted
from apps.console.pages.common import Page, Told, asking_page, console_action
from apps.console.pages.searching import given, refusal_of
from apps.console.pages.times import entered_time_ms
from apps.console.pipelines import runs as shown
from apps.console.pipelines import words
from apps.console.refusals import not_done, refusal_text
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.pagination import ROW_MAX
from apps.core.phrases import read, sentence
from apps.core.queries import RefusedValue, asked_number
from apps.engine.errors import EngineError
from apps.pipelines.catalogue import JOBS
from apps.pipelines.models import PipelineRun, RunState, Trigger
from apps.pipelines.permitted import require_topics, run_to_change
from apps.pipelines.selectors import runs
from apps.pipelines.selectors.readiness import run_log, run_log_bytes
from apps.pipelines.services import asking

RUNS_SHOWN = 50
LINES_SHOWN = 200
LOG_BYTES_SHOWN = 16 * 1024
_RUNS = "/pipelines/runs/"


@asking_page
def run_list(posted: Posted, request: HttpRequest) -> Page:
    """Show runs, the newest first, with the form that asks for one."""
    now = moment(posted.snapshot["sampled_at_ms"])
    query = given(request.GET)
    entered = {name: str(query[name]) for name in ("job", "state") if name in query}
    found: list[PipelineRun] = []
    trouble = ""
    try:
        found = runs.runs(
            sight=sight_of(request),
            job=_known(entered, "job", list(JOBS)),
            state=_known(entered, "state", RunState.values),
            before=asked_number(query, "before", lowest=0, highest=ROW_MAX),
            lines_max=RUNS_SHOWN + 1,
        )
    except ValidationError as refusal:
        trouble = refusal_of(refusal)
    rows = found[:RUNS_SHOWN]
    has_more = len(found) > RUNS_SHOWN
    return Page(
        template="console/pipelines/runs.html",
        values={
            "runs": [shown.run_line(run, now=now) for run in rows],
            "entered": entered,
            "jobs": list(JOBS),
            "states": [(state, words.state(state)) for state in RunState.values],
            "trouble": trouble,
            "next_query": urlencode({**entered, "before": rows[-1].pk}) if has_more else "",
        },
    )


@asking_page
def run(posted: Posted, request: HttpRequest, *, number: int) -> Page:
    """Show how far a run is, what went into it, what came out, and what it cost."""
    try:
        found = runs.run(number, sight_of(request))
    except ProblemError:
        values = {"number": number}
        return Page(template="console/pipelines/no_run.html", values=values, status=404)
    now = moment(posted.snapshot["sampled_at_ms"])
    table_inputs, input_sums = runs.table_inputs(found), runs.input_sums(found)
    queue_inputs = runs.queue_inputs(found, lines_max=LINES_SHOWN)
    return Page(
        template="console/pipelines/run.html",
        values={
            "run": shown.run_row(found, now=now),
            "revision": shown.revision(found, log_bytes=run_log_bytes(found.pk)),
            "job": JOBS.get(found.job),
            "table_inputs": [shown.table_input(row) for row in table_inputs],
            "queue_inputs": queue_inputs,
            "queues_left_out": input_sums["ranges"] - len(table_inputs) - len(queue_inputs),
            "input_sums": input_sums,
            "files": [shown.file_row(file) for file in runs.files(found, lines_max=LINES_SHOWN)],
            "file_sums": runs.file_sums(found),
            "lines_shown": LINES_SHOWN,
            "log": run_log(found.pk, tail_bytes=LOG_BYTES_SHOWN),
            "may_run": _may_run(request, found),
        },
    )


@console_action
def ask(request: HttpRequest) -> Told:
    """Ask for a run of a job over a window."""
    entered = given(request.POST)
    try:
        start, end = _entered_moment(entered, "from"), _entered_moment(entered, "to")
    except ValidationError as refusal:
        return Told(text=refusal_of(refusal), back=_RUNS, is_good=False)
    topics = str(entered.get("topics") or "").replace(",", " ").split()
    require_topics(request, topics)
    return _asked(
        partial(
            asking.ask,
            job=str(entered.get("job") or ""),
            window_start=start,
            window_end=end,
            topics=topics,
            trigger=Trigger.PERSON,
            by=actor_of(request),
        )
    )


@console_action
def rerun(request: HttpRequest, *, number: int) -> Told:
    """Ask for what a run did anew."""
    try:
        found = run_to_change(request, number)
    except ProblemError as refusal:
        return Told(text=not_done(refusal), back=_RUNS, is_good=False)
    return _asked(partial(asking.again, found, by=actor_of(request)))


@console_action
def cancel(request: HttpRequest, *, number: int) -> Told:
    """Call a run off."""
    back = f"{_RUNS}{number}/"
    try:
        found = run_to_change(request, number)
        found = asking.cancel(found.pk, by=actor_of(request))
    except ProblemError as refusal:
        return Told(text=not_done(refusal), back=back, is_good=False)
    if found.state == RunState.CANCELLED:
        return Told(text=_("Called off before it began."), back=back)
    return Told(text=_("Being called off; nothing of it is published."), back=back)


def _may_run(request: HttpRequest, run: PipelineRun) -> Decision:
    """Return whether whoever looks may call a run off, or ask for it again; and why not."""
    found = access_of(request).may_one_on_each((Action.RUN,), Kind.TOPIC, run.topics)
    return found if found.is_allowed else Decision(False, read(found.reason))


def _asked(ask: Callable[[], PipelineRun]) -> Told:
    try:
        found = ask()
    except EngineError as error:
        return Told(text=refusal_text(error), back=_RUNS, is_good=False)
    except ProblemError as refusal:
        return Told(text=not_done(refusal), back=_RUNS, is_good=False)
    back = f"{_RUNS}{found.pk}/"
    if not found.is_active:
        return Told(text=_("This is done already; run it again where it should be."), back=back)
    text = _("Run %(number)s is %(state)s.")
    return Told(text=text % {"number": found.pk, "state": words.state(found.state)}, back=back)


def _entered_moment(entered: QueryDict, name: str) -> datetime:
    time_ms = entered_time_ms(entered, name)
    if time_ms is None:
        raise RefusedValue(name, sentence("is needed"))
    try:
        return moment(time_ms)
    except OverflowError as error:
        raise RefusedValue(name, sentence("is no time there will be")) from error


def _known(entered: dict[str, str], name: str, known: list[str]) -> str | None:
    value = entered.get(name)
    if value is not None and value not in known:
        raise RefusedValue(name, sentence("is none of %(known)s", known=", ".join(known)))
    return value
