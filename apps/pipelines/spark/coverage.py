"""Whether bronze has what a run asks about. Knows the store's files and positions; no Spark.

A window is over when messages stored in it can be seen in the files, and bronze has it when each
queue was copied up to its first message behind the window. Who copied them does not matter.
"""

import logging
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from apps.core.moments import moment
from apps.engine.clock import Clock
from apps.engine.codec.layout import TRACE_TOPIC
from apps.engine.errors import EngineError
from apps.engine.offline.times import first_since
from apps.engine.offline.view import StoreView
from apps.pipelines.catalogue import READING_BRONZE
from apps.pipelines.models import PipelineRun
from apps.pipelines.services.claims import SETTLE
from apps.pipelines.spark import logreading
from apps.pipelines.spark.copyfirst import CopyFirst
from apps.pipelines.spark.ingesting import positions
from apps.pipelines.spark.runner import Runner

_log = logging.getLogger("mqweb.pipelines")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def copying_first(runner: Runner) -> CopyFirst:
    """Return what carries runs out by a runner once bronze of its store has their windows."""
    store, clock = runner.place.store, runner.clock
    return CopyFirst(then=runner.carry_out, is_copied=partial(is_copied, store=store, clock=clock))


def is_copied(run: PipelineRun, *, store: Path, clock: Clock) -> bool:
    """Say whether bronze has all messages and traces of a run's window.

    A run of a job that does not read bronze has what it needs. So has one beside a store that
    cannot be opened: nothing more can be copied of it, and what the lake has can still be asked
    about; that is logged.
    """
    if run.job not in READING_BRONZE:
        return True
    if moment(clock.wall_ms()) < run.window_end + SETTLE:
        return False
    try:
        return is_copied_up_to(store, run.window_end, run.topics)
    except EngineError as error:
        _log.warning("coverage_unknown", extra={"run": run.pk, "detail": str(error)})
        return True


def is_copied_up_to(store: Path, end: datetime, topics: Collection[str]) -> bool:
    """Say whether all messages stored before a moment are in bronze, and all traces.

    Without topics that is of all that are there. Raises EngineError.
    """
    # A message of the very millisecond in which the window ends is behind it.
    end_ms = -((_EPOCH - end) // _MILLISECOND)
    view = StoreView(store)
    try:
        wanted = {TRACE_TOPIC, *(topics or view.matching(".*"))}
        extents = logreading.look(view, wanted)
        known = positions(extents.store_id)
        for key, extent in extents.queues.items():
            copied = known.get(key, 0)
            # Most queues are copied to their ends, and need no search.
            if copied < extent.max_offset and copied < first_since(view, extent, end_ms):
                return False
        return True
    finally:
        view.close()
