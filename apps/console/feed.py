"""Reads the engine once a second for all viewers together. Knows no viewer, socket or page."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable

from apps.console import snapshot as pictures
from apps.console.board import STALE_AFTER_MS, Board, Posted, board
from apps.console.clockwork import ClockworkWatch
from apps.console.deathwatch import DeathWatch
from apps.console.jobwatch import JobsWatch
from apps.console.locks import HistoryTail
from apps.console.picture import Picture, Point
from apps.console.pipelines.watch import PipelinesWatch
from apps.console.rates import RateWindow
from apps.console.snapshot import Snapshot
from apps.console.sparklines import LastHour
from apps.console.topicrows import TopicRows
from apps.engine.api import EngineAPI
from apps.engine.clock import Clock

INTERVAL_MS = 1_000
# The feed shares the engine's loop. With so many queues that a reading takes long, readings come
# less often: they take one fiftieth of the loop's time, and pages do not go stale meanwhile.
REST_PER_READING = 50
INTERVAL_MS_MAX = 4_000

assert INTERVAL_MS < INTERVAL_MS_MAX < STALE_AFTER_MS

HISTORY_MS = 300_000
HISTORY_POINTS_MAX = HISTORY_MS // INTERVAL_MS

logger = logging.getLogger(__name__)


class Feed:
    """Turns readings into pictures and keeps the last five minutes of the totals."""

    def __init__(
        self,
        *,
        clock: Clock,
        clockwork: ClockworkWatch,
        last_hour: LastHour,
        deaths: DeathWatch,
        pipelines: PipelinesWatch,
        jobs: JobsWatch | None = None,
    ) -> None:
        self._jobs = jobs or JobsWatch(clock=clock)
        self._clock = clock
        self._clockwork = clockwork
        self._last_hour = last_hour
        self._deaths = deaths
        self._pipelines = pipelines
        self._rates = RateWindow()
        self._topic_rows = TopicRows()
        self._counters = pictures.Counters()
        self._changes = HistoryTail()
        self._history: deque[Point] = deque(maxlen=HISTORY_POINTS_MAX)
        self._version = 0

    def sample(self, engine: EngineAPI) -> Posted:
        """Read the engine and return the picture; raise what the engine raises."""
        taken_ms, now_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        reading = pictures.read(engine, self._changes)
        self._rates.add(taken_ms, self._counters.of(reading))
        self._version += 1
        snapshot = pictures.build(
            reading,
            self._rates,
            self._topic_rows,
            self._clockwork.picture(),
            self._last_hour.picture(now_ms=now_ms),
            self._deaths.picture(),
            self._pipelines.picture(),
            self._jobs.picture(),
            version=self._version,
            sampled_at_ms=now_ms,
        )
        self._history.append(point_of(snapshot))
        while self._history[0][0] <= now_ms - HISTORY_MS:
            self._history.popleft()
        return Posted(
            picture=Picture(snapshot, tuple(self._history)),
            clock=self._clock,
            taken_monotonic_ms=taken_ms,
        )


def point_of(snapshot: Snapshot) -> Point:
    """Return what the charts draw of a picture."""
    totals = snapshot["totals"]
    return (
        snapshot["sampled_at_ms"],
        totals["send_rate"],
        totals["consume_rate"],
        totals["lag"],
    )


def interval_after(reading_ms: int) -> int:
    """Return the time from one reading to the next when one takes `reading_ms`."""
    return min(max(INTERVAL_MS, reading_ms * REST_PER_READING), INTERVAL_MS_MAX)


async def run(
    engine: EngineAPI,
    *,
    clock: Clock,
    clockwork: ClockworkWatch,
    last_hour: LastHour,
    deaths: DeathWatch,
    pipelines: PipelinesWatch,
    jobs: JobsWatch | None = None,
    sleep: Callable[[float], Awaitable[None]],
    publish: Callable[[Snapshot], Awaitable[None]],
    is_watched: Callable[[], bool] = lambda: True,
    board: Board = board,
) -> None:
    """Sample and publish once a second until cancelled; then say that no engine is open.

    A reading that takes long makes the next one come later. While nobody watches there is one
    every four seconds, and the next within a second after somebody comes.

    A reading or a push that fails is logged once and tried again: viewers see their page go stale.
    """
    feed = Feed(
        clock=clock,
        clockwork=clockwork,
        last_hour=last_hour,
        deaths=deaths,
        pipelines=pipelines,
        jobs=jobs,
    )
    is_failing = False
    try:
        while True:
            started_ms = clock.monotonic_ms()
            interval_ms = INTERVAL_MS
            try:
                posted = feed.sample(engine)
                board.put(posted)
                interval_ms = interval_after(clock.monotonic_ms() - started_ms)
                await publish(posted.snapshot)
            except Exception:
                if not is_failing:
                    logger.exception("console feed failed; it goes on trying")
                is_failing = True
            else:
                is_failing = False
            spent_ms = clock.monotonic_ms() - started_ms
            await sleep(max(0, interval_ms - spent_ms) / 1000)
            for _ in range((INTERVAL_MS_MAX - interval_ms) // INTERVAL_MS):
                if is_watched():
                    break
                await sleep(INTERVAL_MS / 1000)
    finally:
        board.clear()
