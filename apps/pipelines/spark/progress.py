"""How far the jobs of a group are, asked of Spark's status tracker. Knows Spark, and no rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Tasks of the stages that are known by now; later stages of a job are not yet among them."""

    done: int = 0
    total: int = 0

    @property
    def percent(self) -> float | None:
        """Return the share that is done; None while nothing is known."""
        return None if not self.total else round(100 * self.done / self.total, 1)


def counted(stages: Sequence[Any], *, is_running: bool) -> list[Any]:
    """Return the stages of a job, in the order of their numbers, that are not skipped.

    A stage whose shuffle is there from an earlier job never begins, and Spark does not say so; but
    a later one has begun, or the job has ended.
    """
    known = [stage for stage in stages if stage is not None]
    begun = [number for number, stage in enumerate(known) if _has_begun(stage)]
    last = max(begun, default=-1)
    return [
        stage
        for number, stage in enumerate(known)
        if number in begun or (is_running and number > last)
    ]


def _has_begun(stage: Any) -> bool:
    return bool(stage.numCompletedTasks or stage.numActiveTasks or stage.numFailedTasks)


class JobGroup:
    """All jobs that Spark runs for one run."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        """Know the session and the name of the group; nothing is asked yet."""
        self._context = spark.sparkContext
        self._name = name
        self._earlier: frozenset[int] = frozenset()

    def begin(self, meaning: str) -> None:
        """Have the jobs that this thread starts from now on belong to the group."""
        self._context.setJobGroup(self._name, meaning)

    def next_stage(self) -> None:
        """Count from now on only jobs that have not begun yet."""
        self._earlier = frozenset(self._jobs())

    def tasks(self) -> Tasks:
        """Return how many tasks are done, of jobs since `next_stage`; none when the JVM is gone."""
        from py4j.protocol import Py4JError

        try:
            tracker = self._context.statusTracker()
            done = total = 0
            for job in set(self._jobs()) - self._earlier:
                found: Any = tracker.getJobInfo(job)
                if found is None:
                    continue
                stages = [tracker.getStageInfo(stage) for stage in sorted(found.stageIds)]
                for stage in counted(stages, is_running=found.status == "RUNNING"):
                    done += stage.numCompletedTasks
                    total += stage.numTasks
        except (Py4JError, OSError, AttributeError):
            return Tasks()
        return Tasks(done=min(done, total), total=total)

    def cancel(self) -> None:
        """End the jobs of the group that run now; later ones are not hindered."""
        from py4j.protocol import Py4JError

        try:
            self._context.cancelJobGroup(self._name)
        except (Py4JError, OSError, AttributeError):
            # The JVM is gone, and its jobs with it.
            return

    def _jobs(self) -> list[int]:
        return list(self._context.statusTracker().getJobIdsForGroup(self._name))
