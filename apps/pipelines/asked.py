"""What callers ask of results: read from the query string, and refused where it makes no sense."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from django.http import QueryDict

from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.pagination import ROW_MAX
from apps.core.phrases import sentence
from apps.core.queries import RefusedValue, asked_number, asked_time_ms
from apps.pipelines.catalogue import JOBS
from apps.pipelines.models.results.result import TEXT_CHARACTERS_MAX
from apps.pipelines.selectors import results, runs

SPANS: Mapping[str, timedelta | None] = MappingProxyType(
    {
        "last": None,
        "hour": timedelta(hours=1),
        "day": timedelta(days=1),
        "week": timedelta(days=7),
        "month": timedelta(days=30),
    }
)
SPAN_DEFAULT = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which results are wanted: of one run, or of a span of time before `end_ms`."""

    span: str
    run: int | None
    end_ms: int | None
    topic: str | None
    group: str | None

    def scope(self, job: str) -> results.Scope:
        """Return the runs that are meant; raise ProblemError `not_found` for an unknown run, and
        `invalid_argument` for one of another job."""
        if self.run is None:
            return results.scope_of_span(
                job,
                end=None if self.end_ms is None else moment(self.end_ms),
                length=SPANS[self.span],
                topic=self.topic,
                group=self.group,
            )
        found = runs.run(self.run)
        if found.job != job:
            raise ProblemError(
                "invalid_argument",
                sentence("run %(run)s is one of %(job)s", run=self.run, job=found.job),
            )
        return results.scope_of_run(found, topic=self.topic, group=self.group)


def asked_results(query: QueryDict) -> Asked:
    """Read `span`, `to`, `run`, `topic` and `group`; raise ValidationError for what is no such."""
    span = query.get("span", SPAN_DEFAULT)
    if span not in SPANS:
        raise RefusedValue("span", sentence("must be one of %(known)s", known=", ".join(SPANS)))
    end_ms = asked_time_ms(query, "to")
    if end_ms is not None:
        try:
            moment(end_ms)
        except OverflowError as error:
            raise RefusedValue("to", sentence("is no time there will be")) from error
    return Asked(
        span=span,
        run=asked_number(query, "run", lowest=1, highest=ROW_MAX),
        end_ms=end_ms,
        topic=_text(query, "topic"),
        group=_text(query, "group"),
    )


def job_of_table(table: str) -> str:
    """Return the job that writes a table; raise ProblemError `not_found` where none does."""
    for job in JOBS.values():
        if table in job.writes:
            return job.name
    raise ProblemError(
        "not_found", sentence("there are no results in a table %(table)s", table=repr(table[:40]))
    )


def number_of(text: str, kind: str) -> int:
    """Return the number in an address; raise ProblemError `not_found` for what is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= ROW_MAX):
        raise ProblemError(
            "not_found", sentence("there is no %(kind)s %(text)s", kind=kind, text=repr(text[:40]))
        )
    return int(text)


def _text(query: QueryDict, name: str) -> str | None:
    text = query.get(name)
    # What an inner topic is called is longer than a name that may be given.
    if text is not None and ("\0" in text or len(text) > TEXT_CHARACTERS_MAX):
        raise RefusedValue(name, sentence("is no name there is"))
    return text
