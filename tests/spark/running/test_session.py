"""Progress and cancelling of a group of jobs, in a real session."""

import os
import threading
from typing import Any

import pytest

from apps.pipelines.costs import Meter, uses_below
from apps.pipelines.spark import session
from apps.pipelines.spark.progress import JobGroup, Tasks

pytestmark = pytest.mark.spark


def test_a_group_tells_how_many_tasks_are_done_and_is_cancelled(spark: Any) -> None:
    group = JobGroup(spark, "run-7")
    group.begin("a run")
    meter = Meter(read=lambda: uses_below(os.getpid()))
    meter.take()
    spark.range(1000).repartition(3).count()
    whole = group.tasks()
    group.next_stage()
    assert group.tasks() == Tasks()

    def slowly(batches: Any) -> Any:
        import time

        for batch in batches:
            time.sleep(60)
            yield batch

    seen: list[Tasks] = []
    has_ended = threading.Event()

    def cancel_once_it_runs() -> None:
        # The bound of this loop is the end of the job itself.
        while not has_ended.wait(0.05):
            tasks = group.tasks()
            if tasks.total:
                seen.append(tasks)
                group.cancel()

    canceller = threading.Thread(target=cancel_once_it_runs)
    canceller.start()
    try:
        with pytest.raises(Exception, match="cancelled"):
            spark.range(4).mapInArrow(slowly, "id bigint").count()
    finally:
        has_ended.set()
        canceller.join()
    meter.take()

    assert whole.done == whole.total > 3
    assert whole.percent == 100.0
    assert whole.rows_read == 1000
    assert seen[0].done < seen[0].total
    assert seen[0].rows_read is None
    assert meter.cpu_ms > 0
    assert meter.memory_bytes_max > 100_000_000
    assert session.is_alive(spark)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def test_settings_are_ours_then_those_of_the_operator(spark: Any, settings: Any) -> None:
    assert session.is_local("local[2]")
    assert not session.is_local("local-cluster[1,1,800]")


def test_a_worker_finds_what_it_needs_to_end_its_jvm_and_to_start_another(spark: Any) -> None:
    from pyspark import SparkContext

    assert SparkContext._gateway.proc.poll() is None
    assert SparkContext._jvm is not None
    assert SparkContext._active_spark_context is spark.sparkContext
