"""The page of what a job found out, with plots, tables and a choice of the time."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rest_framework.exceptions import ValidationError

from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page
from apps.console.pages.searching import given, refusal_of
from apps.console.pages.times import entered_time_ms, field_value
from apps.console.pipelines import delivery, integrity, load
from apps.console.pipelines import runs as shown
from apps.console.pipelines.section import Findings
from apps.console.refusals import why
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.pagination import rfc3339_or_none
from apps.pipelines.asked import SPAN_DEFAULT, SPANS, asked_results
from apps.pipelines.catalogue import JOBS
from apps.pipelines.selectors import results, runs
from apps.pipelines.selectors.readiness import readiness
from apps.pipelines.tables import TABLES

_FIELDS = ("span", "to", "topic", "group", "run")
_NOTHING = Findings(sections=())

PICTURES: Mapping[str, Callable[[results.Scope], Findings]] = MappingProxyType(
    {
        "ingest": delivery.lake,
        "archive": delivery.lake,
        "loss": integrity.loss,
        "duplicates": integrity.duplicates,
        "ordering": integrity.ordering,
        "skew": load.skew,
        "rates": load.rates,
        "backlog": load.backlog,
        "delays": delivery.delays,
        "retries": delivery.retries,
        "rebalances": delivery.rebalances,
        "quality": integrity.quality,
    }
)
"""What a job's page shows; a job that is not here has runs alone."""

SPAN_WORDS: Mapping[str, Promise] = MappingProxyType(
    {
        "last": gettext_lazy("the last window"),
        "hour": gettext_lazy("an hour"),
        "day": gettext_lazy("a day"),
        "week": gettext_lazy("a week"),
        "month": gettext_lazy("30 days"),
    }
)


@asking_page
def findings(posted: Posted, request: HttpRequest, *, job: str) -> Page:
    """Show what a job found out in the chosen time."""
    known = JOBS.get(job)
    if known is None:
        values = {"name": job, "jobs": list(JOBS)}
        return Page(template="console/pipelines/no_job.html", values=values, status=404)
    now = moment(posted.snapshot["sampled_at_ms"])
    query = given(request.GET)
    entered = {name: str(query[name]) for name in _FIELDS if name in query}
    scope, trouble = _scope(job, query)
    picture = PICTURES.get(job)
    standing = runs.standing(job, now)
    return Page(
        template="console/pipelines/results.html",
        values={
            "job": shown.job_row(standing, now=now),
            "tables": [TABLES[name] for name in known.writes if TABLES[name].model],
            "readiness": None if standing.last_done else readiness(),
            "findings": _NOTHING if scope is None or picture is None else picture(scope),
            "scope": scope,
            "start": rfc3339_or_none(scope.start) if scope else None,
            "end": rfc3339_or_none(scope.end) if scope else None,
            "entered": {"span": SPAN_DEFAULT, **entered, "to": field_value(query, "to")},
            "spans": SPAN_WORDS.items(),
            "query": _query(entered, query),
            "trouble": trouble,
            "has_topics": _has(job, "topic"),
            "has_groups": _has(job, "group"),
        },
    )


assert SPAN_WORDS.keys() == SPANS.keys()


def _scope(job: str, query: QueryDict) -> tuple[results.Scope | None, str]:
    """Return the runs that are meant, or else why there are none."""
    try:
        entered_time_ms(query, "to")
        return asked_results(query).scope(job), ""
    except ValidationError as refusal:
        return None, refusal_of(refusal)
    except ProblemError as refusal:
        return None, _("Nothing can be shown: %(why)s.") % {"why": why(refusal)}


def _query(entered: Mapping[str, str], query: QueryDict) -> str:
    """Return what was chosen as the end of an address of the API."""
    wanted = {name: str(query[name]) for name in entered}
    return urlencode(wanted)


def _has(job: str, column: str) -> bool:
    models = [TABLES[name].names() for name in JOBS[job].writes if TABLES[name].model]
    return any(column in names for names in models)
