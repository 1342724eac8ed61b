"""What the console says live of jobs, runs and streams: rows of one reading for all viewers.

Asks no database: readings come from another thread. None is unknown, and never written as 0.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict

from apps.console.freshness import NOT_READ_YET, State, aged
from apps.console.pipelines.runs import Row, job_row, revision, run_line, stream_row
from apps.core.moments import moment
from apps.core.phrases import Text
from apps.engine.clock import Clock
from apps.pipelines.models import PipelineRun, PipelineStream, RunState
from apps.pipelines.selectors import runs
from apps.pipelines.selectors.readiness import run_log_bytes
from apps.pipelines.selectors.runs import Pace, Standing

RUNS_SHOWN = 10
RUNNING_SHOWN = 20
# Readings come every second while something runs, and less often otherwise.
IDLE_EVERY_MS = 3_000
# From a database that is away each reading takes some seconds longer to fail.
OLD_AFTER_MS = 10_000
# A run that has ended is told of for so long, as its page may have missed a frame.
FOLLOWED_MS = 60_000


class PipelinesPicture(TypedDict):
    """Jobs, runs and streams at the moment of a reading; None is not read yet.

    `lately` are runs that ended while they were looked at. `note` says when all is of another time.
    """

    state: str
    note: Text
    jobs: list[Row] | None
    running: list[Row] | None
    lately: list[Row] | None
    runs: list[Row] | None
    streams: list[Row] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the rows said at one moment. `followed` are runs that go on, or did of late."""

    at: datetime
    jobs: Sequence[Standing]
    followed: Sequence[PipelineRun]
    newest: Sequence[PipelineRun]
    streams: Sequence[PipelineStream]
    paces: Mapping[int, Pace]
    log_bytes: Mapping[int, int] = field(default_factory=dict)


def look(now: datetime, also: Collection[int] = ()) -> Sight:
    """Read the rows: jobs, the newest runs, those that go on or have these numbers, streams."""
    followed = runs.running(also=also, lines_max=RUNNING_SHOWN + len(also))
    newest = runs.runs(lines_max=RUNS_SHOWN)
    streams = runs.streams()
    return Sight(
        at=now,
        jobs=runs.standings(now),
        followed=followed,
        newest=newest,
        streams=streams,
        paces=runs.stream_paces(streams, now),
        log_bytes={run.pk: run_log_bytes(run.pk) for run in (*followed, *newest)},
    )


def picture_of(sight: Sight) -> PipelinesPicture:
    """Return the rows as pages show them."""
    now = sight.at

    def line(run: PipelineRun) -> Row:
        said = revision(run, log_bytes=sight.log_bytes.get(run.pk, 0))
        return {**run_line(run, now=now), "revision": said}

    going_on = [run for run in sight.followed if run.state == RunState.RUNNING]
    return {
        "state": State.FRESH.value,
        "note": "",
        "jobs": [job_row(found, now=now) for found in sight.jobs],
        "running": [line(run) for run in going_on[:RUNNING_SHOWN]],
        "lately": [line(run) for run in sight.followed if run.state != RunState.RUNNING],
        "runs": [line(run) for run in sight.newest],
        "streams": [
            stream_row(stream, pace=sight.paces[stream.pk], now=now) for stream in sight.streams
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    picture: PipelinesPicture
    taken_ms: int
    is_idle: bool


class PipelinesWatch:
    """Keeps the newest reading, and tells what it means by now."""

    def __init__(self, *, clock: Clock) -> None:
        """Know nothing yet."""
        self._clock = clock
        # One attribute, replaced as a whole: readings come from another thread.
        self._reading: _Reading | None = None
        # Until when by the monotonic clock each run is told of; only the reader's thread knows it.
        self._followed: dict[int, int] = {}

    def is_due(self) -> bool:
        """Return whether it is time for a reading; to be asked once a second."""
        reading = self._reading
        if reading is None or not reading.is_idle:
            return True
        return self._clock.monotonic_ms() - reading.taken_ms >= IDLE_EVERY_MS

    def take(self, read: Callable[[datetime, Collection[int]], Sight]) -> None:
        """Read and keep the reading; raise what `read` raises, and keep the last one then."""
        # The time before the reading, so that nothing looks younger than it is.
        taken_ms = self._clock.monotonic_ms()
        self._followed = {pk: until for pk, until in self._followed.items() if until > taken_ms}
        sight = read(moment(self._clock.wall_ms()), self._followed)
        for run in sight.followed:
            if run.state == RunState.RUNNING:
                self._followed[run.pk] = taken_ms + FOLLOWED_MS
        has_streams = any(stream.lease_ends_at for stream in sight.streams)
        self._reading = _Reading(
            picture=picture_of(sight),
            taken_ms=taken_ms,
            is_idle=not self._followed and not has_streams,
        )

    def picture(self) -> PipelinesPicture:
        """Return what pages show now."""
        reading = self._reading
        if reading is None:
            return {
                "state": State.NOT_KNOWN.value,
                "note": NOT_READ_YET,
                "jobs": None,
                "running": None,
                "lately": None,
                "runs": None,
                "streams": None,
            }
        state, note = aged(self._clock.monotonic_ms() - reading.taken_ms, OLD_AFTER_MS)
        if state is State.FRESH:
            return reading.picture
        return {**reading.picture, "state": state.value, "note": note}
