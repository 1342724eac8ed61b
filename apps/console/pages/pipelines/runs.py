"""The pages of runs: the list, one run, and the buttons that ask for one and call one off."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict
from rest_framework.exceptions import ValidationError

from apps.console.board import Posted
from apps.console.pages.common import Page, Told, asking_page, console_action, refusal_text
from apps.console.pages.searching import given, refusal_of
from apps.console.pages.times import entered_time_ms
from apps.console.pipelines import runs as shown
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.pagination import ROW_MAX
from apps.core.queries import asked_number
from apps.engine.errors import EngineError
from apps.pipelines.catalogue import JOBS
from apps.pipelines.models import PipelineRun, RunState, Trigger
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
            "states": RunState.values,
            "trouble": trouble,
            "next_query": urlencode({**entered, "before": rows[-1].pk}) if has_more else "",
        },
    )


@asking_page
def run(posted: Posted, _request: HttpRequest, *, number: int) -> Page:
    """Show how far a run is, what went into it, what came out, and what it cost."""
    try:
        found = runs.run(number)
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
        found = runs.run(number)
    except ProblemError as refusal:
        return Told(text=f"Nothing was done: {refusal}.", back=_RUNS, is_good=False)
    return _asked(partial(asking.again, found, by=actor_of(request)))


@console_action
def cancel(request: HttpRequest, *, number: int) -> Told:
    """Call a run off."""
    back = f"{_RUNS}{number}/"
    try:
        found = asking.cancel(min(number, ROW_MAX), by=actor_of(request))
    except ProblemError as refusal:
        return Told(text=f"Nothing was done: {refusal}.", back=back, is_good=False)
    if found.state == RunState.CANCELLED:
        return Told(text="Called off before it began.", back=back)
    return Told(text="Being called off; nothing of it is published.", back=back)


def _asked(ask: Callable[[], PipelineRun]) -> Told:
    try:
        found = ask()
    except EngineError as error:
        return Told(text=refusal_text(error), back=_RUNS, is_good=False)
    except ProblemError as refusal:
        return Told(text=f"Nothing was done: {refusal}.", back=_RUNS, is_good=False)
    back = f"{_RUNS}{found.pk}/"
    if not found.is_active:
        return Told(text="This is done already; run it again where it should be.", back=back)
    return Told(text=f"Run {found.pk} is {found.state}.", back=back)


def _entered_moment(entered: QueryDict, name: str) -> datetime:
    time_ms = entered_time_ms(entered, name)
    if time_ms is None:
        raise ValidationError({name: ["is needed"]})
    try:
        return moment(time_ms)
    except OverflowError as error:
        raise ValidationError({name: ["is no time there will be"]}) from error


def _known(entered: dict[str, str], name: str, known: list[str]) -> str | None:
    value = entered.get(name)
    if value is not None and value not in known:
        raise ValidationError({name: [f"is none of {', '.join(known)}"]})
    return value
