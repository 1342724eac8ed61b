"""The page of all jobs: how each stands, what comes next, and what is missing here."""

from django.http import HttpRequest

from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page
from apps.console.pipelines import runs as shown
from apps.core.moments import moment
from apps.pipelines.models import RunState
from apps.pipelines.selectors import runs
from apps.pipelines.selectors.readiness import readiness

RUNS_SHOWN = 10


@asking_page
def pipelines(posted: Posted, _request: HttpRequest) -> Page:
    """Show every job with its last run and its next window, the streams, and the last runs."""
    now = moment(posted.snapshot["sampled_at_ms"])
    jobs = [shown.job_row(found, now=now) for found in runs.standings(now)]
    return Page(
        template="console/pipelines/overview.html",
        values={
            "readiness": readiness(),
            "jobs": jobs,
            "running": [
                shown.run_row(run, now=now)
                for run in runs.runs(state=RunState.RUNNING, lines_max=RUNS_SHOWN)
            ],
            "streams": [shown.stream_row(stream, now=now) for stream in runs.streams()],
            "runs": [shown.run_row(run, now=now) for run in runs.runs(lines_max=RUNS_SHOWN)],
        },
    )
