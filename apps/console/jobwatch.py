"""What the console says live of jobs that send dead letters again. Rows of one reading for all.

Asks no database: readings come from another thread, and only while somebody looks at a job.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypedDict

from apps.console.deadletters import Row, job_row
from apps.console.freshness import NOT_READ_YET, State, aged
from apps.core.phrases import Text
from apps.deadletters.models import ResendJob
from apps.engine.clock import Clock

# From a database that is away each reading takes some seconds longer to fail.
OLD_AFTER_MS = 10_000
# A job that has ended is told of for so long, as its page may have missed a frame.
FOLLOWED_MS = 60_000


class JobsPicture(TypedDict):
    """Jobs that go on, or ended a while ago, at the moment of a reading."""

    state: str
    note: Text
    jobs: list[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    jobs: list[Row]
    taken_ms: int


class JobsWatch:
    """Keeps the newest reading, and tells what it means by now."""

    def __init__(self, *, clock: Clock) -> None:
        """Know nothing yet."""
        self._clock = clock
        # One attribute, replaced as a whole: readings come from another thread.
        self._reading: _Reading | None = None
        # Until when by the monotonic clock each job is told of; only the reader's thread knows it.
        self._followed: dict[int, int] = {}

    def take(self, read: Callable[[Collection[int]], Sequence[ResendJob]]) -> None:
        """Read and keep the reading; raise what `read` raises, and keep the last one then."""
        taken_ms, now_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        self._followed = {pk: until for pk, until in self._followed.items() if until > taken_ms}
        found = read(tuple(self._followed))
        for job in found:
            if job.is_active:
                self._followed[job.pk] = taken_ms + FOLLOWED_MS
        rows = [{**job_row(job, now_ms=now_ms), "revision": revision_of(job)} for job in found]
        self._reading = _Reading(jobs=rows, taken_ms=taken_ms)

    def rest(self) -> None:
        """Forget the reading: nobody looks, and the next who does waits for a new one."""
        self._reading = None

    def picture(self) -> JobsPicture:
        """Return what pages show now."""
        reading = self._reading
        if reading is None:
            return nothing_known()
        state, note = aged(self._clock.monotonic_ms() - reading.taken_ms, OLD_AFTER_MS)
        return {"state": state.value, "note": note, "jobs": reading.jobs}


def nothing_known() -> JobsPicture:
    """Return the picture before the first reading."""
    return {"state": State.NOT_KNOWN.value, "note": NOT_READ_YET, "jobs": []}


def revision_of(job: ResendJob) -> str:
    """Return a text that changes when more of a job's page does than its figures."""
    troubles = job.failed_count + job.gone_count
    return f"{job.state} {int(job.cancel_requested)} {troubles}"
