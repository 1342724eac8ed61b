"""How far the jobs of a group are, asked of what Spark keeps of them. Knows Spark, and no models.

Tasks are counted by the status tracker. Rows are in the store behind it, which is there without
Spark's pages too: what a task has read of its input is known when it ends, and of those that run
with each heartbeat of their executor.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# More than Spark keeps of a stage.
_TASKS_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Tasks of the stages that are known by now; later stages of a job are not yet among them.

    `rows_read` is what they have read of files and of the log, None while no task has told.
    """

    done: int = 0
    total: int = 0
    rows_read: int | None = None

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


def rows_of(
    attempts: Sequence[Mapping[str, Any]], tasks: Callable[[int], Iterable[Mapping[str, Any]]]
) -> int | None:
    """Return how many rows a stage has read; None while no task of it has told.

    `attempts` are Spark's `StageData`, `tasks` returns the `TaskData` of an attempt by its number.
    Spark adds up all attempts of all tasks. A partition reads the same rows each time, so where
    some began anew each partition counts once, with the most that an attempt has read of it.
    """
    if not any(one["inputRecords"] or one["numCompleteTasks"] for one in attempts):
        return None
    anew = len(attempts) > 1 or any(
        one["numFailedTasks"] + one["numKilledTasks"] for one in attempts
    )
    if not anew:
        return sum(int(one["inputRecords"]) for one in attempts)
    most: dict[int, int] = {}
    for attempt in attempts:
        for task in tasks(attempt["attemptId"]):
            told = task.get("taskMetrics") or {}
            read = int(told.get("inputMetrics", {}).get("recordsRead", 0))
            most[task["partitionId"]] = max(most.get(task["partitionId"], 0), read)
    return sum(most.values())


class StageStore:
    """What Spark keeps of stages, as plain values: one call of the JVM for each answer."""

    def __init__(self, context: Any) -> None:
        """Bind to a `SparkContext`."""
        jvm = context._jvm
        self._store = context._jsc.sc().statusStore()
        self._nothing = jvm.java.util.ArrayList()
        self._no_quantiles = context._gateway.new_array(jvm.double, 0)
        self._writer = getattr(jvm.org.apache.spark.status, "KVUtils$KVStoreScalaSerializer")()

    def rows_read(self, stage: int) -> int | None:
        """Return how many rows a stage has read; None while nobody has told."""
        attempts = self._plain(
            self._store.stageData(stage, False, self._nothing, False, self._no_quantiles)
        )
        return rows_of(attempts, lambda attempt: self._tasks(stage, attempt))

    def _tasks(self, stage: int, attempt: int) -> Any:
        return self._plain(self._store.taskList(stage, attempt, _TASKS_MAX))

    def _plain(self, found: Any) -> Any:
        return json.loads(gzip.decompress(self._writer.serialize(found)))


class JobGroup:
    """All jobs that Spark runs for one run."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        """Know the session and the name of the group; nothing is asked yet."""
        self._context = spark.sparkContext
        self._name = name
        self._earlier: frozenset[int] = frozenset()
        self._stages: StageStore | None = None

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
            begun: set[int] = set()
            for job in set(self._jobs()) - self._earlier:
                found: Any = tracker.getJobInfo(job)
                if found is None:
                    continue
                stages: list[Any] = [
                    tracker.getStageInfo(stage) for stage in sorted(found.stageIds)
                ]
                # A stage may belong to several jobs.
                begun.update(one.stageId for one in stages if one is not None and _has_begun(one))
                for stage in counted(stages, is_running=found.status == "RUNNING"):
                    done += stage.numCompletedTasks
                    total += stage.numTasks
            rows = self._rows_read(begun)
        except (Py4JError, OSError, AttributeError):
            return Tasks()
        return Tasks(done=min(done, total), total=total, rows_read=rows)

    def cancel(self) -> None:
        """End the jobs of the group that run now; later ones are not hindered."""
        from py4j.protocol import Py4JError

        try:
            self._context.cancelJobGroup(self._name)
        except (Py4JError, OSError, AttributeError):
            # The JVM is gone, and its jobs with it.
            return

    def _rows_read(self, stages: Iterable[int]) -> int | None:
        from py4j.protocol import Py4JError

        try:
            if self._stages is None:
                self._stages = StageStore(self._context)
            told = [rows for stage in stages if (rows := self._stages.rows_read(stage)) is not None]
        except (Py4JError, TypeError):
            # A stage that is not kept any more, or a Spark whose classes have other names.
            return None
        return sum(told) if told else None

    def _jobs(self) -> list[int]:
        return list(self._context.statusTracker().getJobIdsForGroup(self._name))
