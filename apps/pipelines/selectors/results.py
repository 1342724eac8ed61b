"""Which runs' results are meant, and their rows. Knows windows and models; adds nothing up.

A stretch of time may have been looked at by several runs: by the schedule, and by people. No
moment of a topic is to count twice, so of runs that overlap one is taken.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db.models import QuerySet

from apps.core.exceptions import ProblemError
from apps.core.phrases import sentence
from apps.pipelines.models import RESULTS, PipelineRun, RunState
from apps.pipelines.models.results.result import Result
from apps.pipelines.tables import TABLES

# A month of runs every five minutes.
RUNS_MAX = 10_000

Rows = QuerySet[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Runs of one job whose results are looked at, and what of them; None is all.

    `passed_over` runs had results too, of a time that another run of the scope covers.
    `is_cut` says that there were more runs than are looked at.
    """

    job: str
    runs: Sequence[PipelineRun]
    topic: str | None = None
    group: str | None = None
    passed_over: int = 0
    is_cut: bool = False

    @property
    def start(self) -> datetime | None:
        """Return the first moment that is covered; None where nothing is."""
        return min((run.window_start for run in self.runs), default=None)

    @property
    def end(self) -> datetime | None:
        """Return the end of what is covered."""
        return max((run.window_end for run in self.runs), default=None)

    def rows(self, model: type[Result]) -> Rows:
        """Return the rows of a result that are meant."""
        return narrowed(
            model._default_manager.filter(run__in=[run.pk for run in self.runs]),
            topic=self.topic,
            group=self.group,
        )


def published() -> QuerySet[PipelineRun]:
    """Return the runs whose results count: published, still there, and not replaced by another."""
    shown = PipelineRun.objects.filter(state=RunState.DONE, published=True, results_deleted_at=None)
    replaced = shown.filter(replaces__isnull=False).values("replaces")
    return shown.exclude(pk__in=replaced)


def latest(job: str) -> PipelineRun | None:
    """Return the published run of a job whose window ends last."""
    return published().filter(job=job).order_by("-window_end", "-pk").first()


def scope_of_span(
    job: str,
    *,
    end: datetime | None,
    length: timedelta | None,
    topic: str | None = None,
    group: str | None = None,
) -> Scope:
    """Return what was found out in the time of `length` before `end`.

    `end` None is the end of the newest window; `length` None is that of the run that ends last.
    """
    found = published().filter(job=job)
    if end is not None:
        found = found.filter(window_end__lte=end)
    last = found.order_by("-window_end", "-pk").first()
    if last is None:
        return Scope(job=job, runs=(), topic=topic, group=group)
    if length is None:
        return Scope(job=job, runs=(last,), topic=topic, group=group)
    start = (end or last.window_end) - length
    inside = list(
        found.filter(window_start__gte=start)
        .order_by("-window_end", "-pk")
        .defer("lineage", "parameters")[: RUNS_MAX + 1]
    )
    taken = apart(inside[:RUNS_MAX])
    return Scope(
        job=job,
        runs=taken,
        topic=topic,
        group=group,
        passed_over=len(inside[:RUNS_MAX]) - len(taken),
        is_cut=len(inside) > RUNS_MAX,
    )


def scope_of_run(run: PipelineRun, *, topic: str | None = None, group: str | None = None) -> Scope:
    """Return what one run found out, whatever others did; of no run where nothing of it is left."""
    runs = (run,) if published().filter(pk=run.pk).exists() else ()
    return Scope(job=run.job, runs=runs, topic=topic, group=group)


def apart(runs: Iterable[PipelineRun]) -> list[PipelineRun]:
    """Return runs of which no two tell of the same moment of a topic, by time.

    Of those that do, one over all topics goes before one over some, a longer before a shorter, and
    a newer before an older.
    """
    ranked = sorted(
        runs,
        key=lambda run: (bool(run.topics), run.window_start - run.window_end, -run.pk),
    )
    of_all, of_topic = _Stretches(), defaultdict[str, _Stretches](_Stretches)
    taken = []
    for run in ranked:
        window = run.window_start, run.window_end
        mine = [of_topic[topic] for topic in run.topics]
        if any(stretches.meet(*window) for stretches in (of_all, *mine)):
            continue
        for stretches in mine or [of_all]:
            stretches.add(*window)
        taken.append(run)
    return sorted(taken, key=lambda run: (run.window_start, run.pk))


def narrowed(rows: Rows, *, topic: str | None, group: str | None) -> Rows:
    """Return the rows of a topic and a group, as far as the table has such columns."""
    for name, value in (("topic", topic), ("group", group)):
        if value is not None and has_column(rows.model, name):
            rows = rows.filter(**{name: value})
    return rows


def has_column(model: type[Any], name: str) -> bool:
    """Say whether rows of a model have a column."""
    try:
        model._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    return True


def model_of(table: str) -> type[Result]:
    """Return the model of a table; raise ProblemError `not_found` where it has none."""
    found = TABLES.get(table)
    if found is None or not found.model:
        raise ProblemError(
            "not_found",
            sentence("there are no results in a table %(table)s", table=repr(table[:40])),
        )
    return RESULTS[found.model]


@dataclass(slots=True)
class _Stretches:
    """Stretches of time that do not meet, by time."""

    starts: list[datetime] = field(default_factory=list)
    ends: list[datetime] = field(default_factory=list)

    def meet(self, start: datetime, end: datetime) -> bool:
        """Say whether one of them shares a moment with this one."""
        before = bisect_left(self.starts, end) - 1
        return before >= 0 and self.ends[before] > start

    def add(self, start: datetime, end: datetime) -> None:
        """Take one that meets none."""
        place = bisect_left(self.starts, start)
        self.starts.insert(place, start)
        self.ends.insert(place, end)
