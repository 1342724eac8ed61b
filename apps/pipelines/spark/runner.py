"""Carries out one run that was claimed: the only place that says how a run has ended.

Knows rows, a session and `execute` by their signatures; the session may be a double.
"""

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import sleep
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection

from apps.engine.clock import Clock
from apps.pipelines.costs import Meter, uses_below
from apps.pipelines.models import PipelineRun, RunState
from apps.pipelines.place import Place
from apps.pipelines.runlogs import RunLog
from apps.pipelines.services import claims
from apps.pipelines.services.claims import Progress
from apps.pipelines.spark.progress import JobGroup
from apps.pipelines.spark.watching import Stopped, Watch, Why

Found = TypeVar("Found")
Execute = Callable[[Any, PipelineRun, Place, Callable[[str, int | None], None]], None]

# So long it is tried to say how a run has ended; afterwards its lease says that it was cut off.
_PATIENCE = 30
_PAUSE_S = 1.0

_log = logging.getLogger("mqweb.pipelines")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """What runs need beside the session."""

    execute: Execute
    place: Place
    clock: Clock
    run_log: RunLog
    stopping: threading.Event
    make_group: Callable[[Any, str], Any] = JobGroup
    say: Callable[[Progress], None] | None = None
    pause: Callable[[float], None] = sleep

    def carry_out(self, spark: Any, run: PipelineRun) -> RunState:
        """Run, write down how it ended and what it cost, and return the state; raise nothing.

        The main loop of a run, and so the place that may catch whatever a job raises.
        """
        started_ms = self.clock.monotonic_ms()
        meter = Meter(read=lambda: uses_below(os.getpid()))
        group = self.make_group(spark, f"run-{run.pk}")
        watch = Watch(
            run, group=group, meter=meter, stopping=self.stopping, clock=self.clock, say=self.say
        )
        with self.run_log.of_run(run.pk):
            _log.info("run_started", extra={"run": run.pk, "job": run.job})
            watch.start()
            error: Exception | None = None
            try:
                group.begin(str(run))
                self.execute(spark, run, self.place, watch.tell)
            except Exception as raised:
                error = raised
            finally:
                watch.stop()
            state = self._patiently(lambda: _ended(run, watch.why, error))
            self._patiently(
                lambda: claims.settle(
                    run,
                    duration_ms=self.clock.monotonic_ms() - started_ms,
                    cpu_ms=meter.cpu_ms,
                    memory_bytes_max=meter.memory_bytes_max,
                )
            )
            ended = RunState.INTERRUPTED if state is None else state
            extra = {"run": run.pk, "job": run.job, "state": ended.value}
            if ended == RunState.FAILED:
                _log.error("run_failed", extra=extra, exc_info=error)
            else:
                _log.info("run_ended", extra=extra)
        return ended

    def _patiently(self, work: Callable[[], Found]) -> Found | None:
        """Return what the database says once it is there; None when it stays away."""
        for _ in range(_PATIENCE):
            try:
                return work()
            except (OperationalError, InterfaceError):
                connection.close()
                self.pause(_PAUSE_S)
        return None


def _ended(run: PipelineRun, why: Why | None, error: Exception | None) -> RunState:
    """Write down how a run ended that did not publish, and return the state it has now."""
    told = claims.look(run)
    if told.is_ours:
        if told.is_cancelled:
            claims.finish(run, RunState.CANCELLED)
        elif why is Why.STOPPING:
            claims.finish(run, RunState.INTERRUPTED, error=Why.STOPPING.value)
        elif error is None:
            claims.finish(run, RunState.FAILED, error="it ended and has published nothing")
        else:
            claims.finish(run, RunState.FAILED, error=sentence_of(error))
    run.refresh_from_db()
    return RunState(run.state)


def sentence_of(error: Exception) -> str:
    """Return what an operator needs of an error: code or kind, and the text without its stack."""
    # Both error trees of ours have codes.
    kind = getattr(error, "code", type(error).__name__)
    if isinstance(error, Stopped):
        return error.why.value
    text = str(error)
    for mark in ("\n\nJVM stacktrace:", "\n\tat ", "\nTraceback (most recent call last)"):
        text = text.split(mark)[0]
    return f"{kind}: {text.strip()}"
