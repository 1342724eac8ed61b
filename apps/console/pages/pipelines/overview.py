"""The page of all jobs: how each stands, what comes next, and what is missing here."""

from django.http import HttpRequest

from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page
from apps.console.pipelines import watch
from apps.core.moments import moment
from apps.pipelines.selectors.readiness import readiness


@asking_page
def pipelines(posted: Posted, _request: HttpRequest) -> Page:
    """Show every job with its last run and its next window, the streams, and the last runs."""
    now = moment(posted.snapshot["sampled_at_ms"])
    return Page(
        template="console/pipelines/overview.html",
        values={
            "running_max": watch.RUNNING_SHOWN,
            "readiness": readiness(),
            "pipelines": watch.picture_of(watch.look(now)),
        },
    )
