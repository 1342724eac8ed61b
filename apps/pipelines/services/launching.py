"""What beat does for pipelines: expire leases, ask for what is due. Another module starts workers.

A job's window is a whole slot of its interval. It is due a little after its end, when the log shows
all of it; a job that reads bronze waits until an ingest has begun after that.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from django.db.models import Max, Q

from apps.clockwork.steps import Step
from apps.core.moments import moment
from apps.engine.clock import Clock
from apps.pipelines import starting
from apps.pipelines.catalogue import COPYING, JOBS, READING_BRONZE, Job
from apps.pipelines.models import PipelineRun, PipelineStream, RunState, Trigger
from apps.pipelines.models.runs import ACTIVE
from apps.pipelines.services import asking, claims, presence
from apps.pipelines.services.claims import SETTLE

# So many windows that were missed are made up for, as after a night without a worker.
CATCH_UP_MAX = 24
ATTEMPTS_MAX = 3
PAUSE_AFTER_FAILURE = timedelta(minutes=1)
BY = "schedule"

_FAILED = (RunState.FAILED, RunState.INTERRUPTED)


def look(*, clock: Clock, mode: str, archive: bool) -> Step:
    """Do what a tick is for: ask for what is due and, where `mode` is `demand`, start a worker.

    Where it is `off`, only leases that have ended are looked at.
    """
    if mode == "off":
        return Step(done=len(claims.expire()))
    done = launch(now=moment(clock.wall_ms()), archive=archive)
    if mode == "demand":
        starting.start_worker_if_needed()
    return Step(done=done)


def launch(*, now: datetime, archive: bool) -> int:
    """Ask for every run that is due and return how many are new; `archive` says whether to."""
    claims.expire()
    ingested = _ingested_until(now)
    made = 0
    for job in JOBS.values():
        if job.name == "archive" and not archive:
            continue
        for start in _due(job, now=now, ingested=ingested):
            run = asking.ask(
                job=job.name,
                window_start=start,
                window_end=start + timedelta(seconds=job.every_s),
                trigger=Trigger.SCHEDULE,
                by=BY,
            )
            made += run.state == RunState.QUEUED
    return made


def _due(job: Job, *, now: datetime, ingested: datetime | None) -> Iterator[datetime]:
    """Yield where the windows begin that are to be asked for."""
    every = timedelta(seconds=job.every_s)
    last = _slot(now - SETTLE, every) - every
    known = _runs_by_window(job, since=last - CATCH_UP_MAX * every, every=every)
    if job.name in COPYING:
        # It takes whatever there is, so one that waits is as good as many.
        waits = any(run.state == RunState.QUEUED for runs in known.values() for run in runs)
        if not waits and _is_to_be_asked(known.get(last, ()), now):
            yield last
        return
    first = last - (CATCH_UP_MAX - 1) * every
    if not _has_run_before(job, first):
        # What was never run is not made up for: that is what a backfill is for.
        first = max(first, min(known, default=last))
    start = first
    while start <= last:
        is_there = job.name not in READING_BRONZE or (
            ingested is not None and start + every <= ingested
        )
        if is_there and _is_to_be_asked(known.get(start, ()), now):
            yield start
        start += every


def _has_run_before(job: Job, moment: datetime) -> bool:
    return PipelineRun.objects.filter(
        job=job.name, trigger=Trigger.SCHEDULE, window_start__lt=moment
    ).exists()


def _is_to_be_asked(runs: Sequence[PipelineRun], now: datetime) -> bool:
    """Say whether a window with these runs, the newest first, needs another one."""
    if not runs:
        return True
    if runs[0].state not in _FAILED or len(runs) >= ATTEMPTS_MAX:
        return False
    ended_at = runs[0].ended_at or now
    return bool(now - ended_at >= PAUSE_AFTER_FAILURE * 2 ** (len(runs) - 1))


def _runs_by_window(
    job: Job, *, since: datetime, every: timedelta
) -> dict[datetime, list[PipelineRun]]:
    found: dict[datetime, list[PipelineRun]] = defaultdict(list)
    rows = PipelineRun.objects.filter(
        Q(window_start__gte=since) | Q(state__in=ACTIVE), job=job.name, topics=[], parameters={}
    )
    for run in rows.only("window_start", "window_end", "state", "ended_at"):
        if run.window_end - run.window_start == every:
            found[run.window_start].append(run)
    return found


def _ingested_until(now: datetime) -> datetime | None:
    """Return up to when all messages are in bronze; None where nothing is known."""
    done = PipelineRun.objects.filter(job="ingest", state=RunState.DONE, topics=[], parameters={})
    began: datetime | None = done.aggregate(at=Max("started_at"))["at"]
    # A run leaves to streams what they copy.
    levels = [_level_at(stream) for stream in presence.streams_there()]
    moments = [moment for moment in (now, began, *levels) if moment is not None]
    return None if len(moments) < 2 + len(levels) else min(moments) - SETTLE


def _level_at(stream: PipelineStream) -> datetime | None:
    """Return up to when a stream has copied all; None while it is behind, or nothing is known."""
    if stream.lag != 0 or stream.updated_at is None:
        return None
    last = stream.batches.order_by("number").last()
    # What came while its last batch went on was not counted when that began.
    return stream.updated_at - timedelta(milliseconds=last.duration_ms if last else 0)


def _slot(moment: datetime, every: timedelta) -> datetime:
    """Return the beginning of the slot a moment is in."""
    every_s = int(every.total_seconds())
    return datetime.fromtimestamp(int(moment.timestamp()) // every_s * every_s, UTC)
