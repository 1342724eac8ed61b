"""Runs, jobs and streams as read from the rows. A number of queries that does not grow with them.

Knows the catalogue; says nothing of what a job found.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.expressions import RawSQL

from apps.access.policy import Sight
from apps.access.policy.sight import ALL
from apps.core.exceptions import ProblemError
from apps.core.moments import moment, ms_of
from apps.core.pagination import ROW_MAX
from apps.core.phrases import sentence
from apps.pipelines.catalogue import JOBS, Job
from apps.pipelines.models import (
    LakeFile,
    PipelineRun,
    PipelineStream,
    RunInput,
    RunState,
    StreamBatch,
)
from apps.pipelines.models.runs import ACTIVE

# Runs whose durations make a job's trend, of at most so many days.
TREND_RUNS = 30
TREND_DAYS = 30
# What a stream's rate is of, and so many batches at most: one takes longer than 0.3 s.
RATE_SPAN = timedelta(minutes=1)
RATE_BATCHES = 200
_SECOND_MS = 1000
_EVER = datetime.min.replace(tzinfo=UTC)
# The ORM has no lateral join.
_NEWEST = """
    SELECT run.id
    FROM unnest(%s::text[]) AS wanted (job),
        LATERAL (
            SELECT every.id FROM pipelines_pipelinerun AS every
            WHERE every.job = wanted.job AND every.state = ANY(%s) AND every.requested_at >= %s
            ORDER BY every.id DESC LIMIT %s
        ) AS run
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A job with its newest run, the one that was done last, and how long the last ones took.

    `next_start` to `next_end` is the next window that will be whole; it can be asked for from its
    end on. `waiting` are runs that wait or run. `durations_ms` are the oldest first.
    """

    job: Job
    last: PipelineRun | None
    last_done: PipelineRun | None
    next_start: datetime
    next_end: datetime
    waiting: int
    durations_ms: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The last batch of a stream, and its rows a second; None is not known."""

    last: StreamBatch | None
    rows_per_s: float | None


def standings(now: datetime) -> list[Standing]:
    """Return every job of the catalogue as it stands."""
    newest = {run.job: run for run in _newest()}
    done = {run.job: run for run in _newest([RunState.DONE])}
    waiting = _waiting()
    durations = _durations(now)
    return [
        _standing(job, newest=newest, done=done, waiting=waiting, durations=durations, now=now)
        for job in JOBS.values()
    ]


def standing(name: str, now: datetime) -> Standing:
    """Return one job as it stands; raise ProblemError `not_found` for an unknown one."""
    if name not in JOBS:
        raise ProblemError("not_found", sentence("there is no job %(name)s", name=repr(name[:40])))
    return next(found for found in standings(now) if found.job.name == name)


def next_window(job: Job, now: datetime) -> tuple[datetime, datetime]:
    """Return the window of a job's schedule that `now` lies in: the next one to be whole."""
    every_ms = job.every_s * _SECOND_MS
    start = moment(ms_of(now) // every_ms * every_ms)
    return start, start + timedelta(seconds=job.every_s)


def runs(
    *,
    sight: Sight = ALL,
    job: str | None = None,
    state: str | None = None,
    before: int | None = None,
    lines_max: int,
) -> list[PipelineRun]:
    """Return runs that a sight shows, the newest first, from the one before number `before` on."""
    found = PipelineRun.objects.all()
    if not sight.cluster:
        lists = PipelineRun.objects.order_by().values_list("topics", flat=True).distinct()
        shown = {name for topics in lists for name in topics if sight.topic(name)}
        found = found.filter(topics__contained_by=sorted(shown)).exclude(topics=[])
    if job is not None:
        found = found.filter(job=job)
    if state is not None:
        found = found.filter(state=state)
    if before is not None:
        found = found.filter(pk__lt=before)
    return list(found.order_by("-pk")[:lines_max])


def run(number: int, sight: Sight = ALL) -> PipelineRun:
    """Return a run; raise ProblemError `not_found` where there is none that the sight shows.

    One of all topics is the installation's; one of named topics is shown to who sees all of these.
    """
    found = PipelineRun.objects.filter(pk=number).first() if 0 < number <= ROW_MAX else None
    if found is None or not _is_shown(found, sight):
        raise ProblemError("not_found", sentence("there is no run %(number)s", number=number))
    return found


def _is_shown(found: PipelineRun, sight: Sight) -> bool:
    return sight.cluster or (bool(found.topics) and all(map(sight.topic, found.topics)))


def inputs(of: PipelineRun, *, lines_max: int) -> list[RunInput]:
    """Return what went into a run, by table, topic and queue."""
    return list(of.inputs.order_by("table", "topic", "queue", "pk")[:lines_max])


def table_inputs(of: PipelineRun) -> list[RunInput]:
    """Return the tables, of lake and database, that went into a run: they have no offsets."""
    return list(of.inputs.filter(topic="").order_by("table", "pk"))


def queue_inputs(of: PipelineRun, *, lines_max: int) -> list[RunInput]:
    """Return the ranges of queues that went into a run, by table, topic and queue."""
    found = of.inputs.exclude(topic="")
    return list(found.order_by("table", "topic", "queue", "pk")[:lines_max])


def input_sums(of: PipelineRun) -> Mapping[str, int]:
    """Return how many ranges there are, and how many rows they have together."""
    found = of.inputs.aggregate(ranges=Count("pk"), rows=Sum("rows"))
    return {"ranges": found["ranges"], "rows": found["rows"] or 0}


def files(of: PipelineRun, *, lines_max: int) -> list[LakeFile]:
    """Return the files a run made, also those that were replaced since."""
    return list(of.files.order_by("pk")[:lines_max])


def file_sums(of: PipelineRun) -> Mapping[str, int]:
    """Return how many files a run made, of how many rows and bytes; and how many are there yet."""
    found = of.files.aggregate(
        files=Count("pk"),
        kept=Count("pk", filter=Q(deleted_at=None)),
        rows=Sum("rows"),
        size_bytes=Sum("size_bytes"),
    )
    return {name: value or 0 for name, value in found.items()}


def running(*, also: Collection[int] = (), lines_max: int) -> list[PipelineRun]:
    """Return the runs that go on, and those with these numbers whatever became of them."""
    wanted = Q(state=RunState.RUNNING) | Q(pk__in=also)
    return list(PipelineRun.objects.filter(wanted).defer("lineage").order_by("-pk")[:lines_max])


def streams() -> list[PipelineStream]:
    """Return the streams by name."""
    return list(PipelineStream.objects.order_by("name"))


def stream_paces(of: Sequence[PipelineStream], now: datetime) -> Mapping[int, Pace]:
    """Return the last batch of each stream, and how fast each one is, by its number."""
    return {one.pk: stream_pace(one, now) for one in of}


def stream_pace(of: PipelineStream, now: datetime) -> Pace:
    """Return the last batch of a stream, and how many rows a second it took in the last minute.

    One that began less than a minute ago is measured since then; one that does not run, or has not
    told anything, has no rate.
    """
    newest = list(of.batches.order_by("-pk")[:RATE_BATCHES])
    last = newest[0] if newest else None
    if of.started_at is None or of.updated_at is None or not is_running(of, now):
        return Pace(last=last, rows_per_s=None)
    began = max(of.started_at, now - RATE_SPAN)
    span_s = max((now - began).total_seconds(), 1.0)
    rows = sum(batch.rows for batch in newest if batch.ended_at >= began)
    return Pace(last=last, rows_per_s=rows / span_s)


def is_running(stream: PipelineStream, now: datetime) -> bool:
    """Say whether a process has the stream at this moment."""
    return stream.is_wanted and stream.lease_ends_at is not None and stream.lease_ends_at > now


def stream(name: str) -> PipelineStream:
    """Return a stream; raise ProblemError `not_found` where there is none."""
    found = PipelineStream.objects.filter(name=name).first() if "\0" not in name else None
    if found is None:
        raise ProblemError(
            "not_found", sentence("there is no stream %(name)s", name=repr(name[:40]))
        )
    return found


def batches(of: PipelineStream, *, before: int | None = None, lines_max: int) -> list[StreamBatch]:
    """Return batches of a stream, the newest first, from the one before number `before` on."""
    found = of.batches.all()
    if before is not None:
        found = found.filter(number__lt=before)
    return list(found.order_by("-number")[:lines_max])


def _newest(
    states: Sequence[str] = RunState.values, *, since: datetime = _EVER, lines_max: int = 1
) -> QuerySet[PipelineRun]:
    """Return the newest runs of each job in one of some states: a short walk of the index for each.

    A union of a query for each job would say the same, and takes the ORM 10 ms to put together.
    """
    found = RawSQL(_NEWEST, [list(JOBS), list(states), since, lines_max])  # noqa: S611
    return PipelineRun.objects.filter(pk__in=found).defer("lineage").order_by("-pk")


def _waiting() -> Mapping[str, int]:
    counted = PipelineRun.objects.filter(state__in=ACTIVE).order_by().values("job")
    return {row["job"]: row["count"] for row in counted.annotate(count=Count("pk"))}


def _durations(now: datetime) -> Mapping[str, list[int]]:
    """Return how long the last runs of each job took that were done, the oldest first."""
    since = now - timedelta(days=TREND_DAYS)
    found: dict[str, list[int]] = defaultdict(list)
    done = _newest([RunState.DONE], since=since, lines_max=TREND_RUNS)
    for job, duration_ms in done.reverse().values_list("job", "duration_ms"):
        if duration_ms is not None:
            found[job].append(duration_ms)
    return found


def _standing(
    job: Job,
    *,
    newest: Mapping[str, PipelineRun],
    done: Mapping[str, PipelineRun],
    waiting: Mapping[str, int],
    durations: Mapping[str, list[int]],
    now: datetime,
) -> Standing:
    next_start, next_end = next_window(job, now)
    return Standing(
        job=job,
        last=newest.get(job.name),
        last_done=done.get(job.name),
        next_start=next_start,
        next_end=next_end,
        waiting=waiting.get(job.name, 0),
        durations_ms=durations.get(job.name, []),
    )
