"""Watches a run from a thread: progress and costs to its row, the row's wish to stop to Spark.

Knows rows and a group of jobs by what it can do; no session.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

from django.db import InterfaceError, OperationalError, connection

from apps.engine.clock import Clock
from apps.pipelines.costs import Meter
from apps.pipelines.models import PipelineRun
from apps.pipelines.services import claims
from apps.pipelines.services.claims import Progress, Told
from apps.pipelines.spark.progress import Tasks

LOOK_EVERY_S = 0.5
RENEW_EVERY_MS = 5_000
# Reading /proc for all processes of the machine takes some milliseconds.
METER_EVERY_MS = 1_000

_log = logging.getLogger("mqweb.pipelines")


class Why(StrEnum):
    """Why a run is to stop before its end."""

    CANCELLED = "cancelled"
    STOPPING = "the worker was told to stop"
    LOST = "the run is not this worker's any more"


class Stopped(Exception):
    """A run goes no further; raised between its stages."""

    def __init__(self, why: Why) -> None:
        """Keep why."""
        super().__init__(why.value)
        self.why = why


class Group(Protocol):
    """What is asked of the jobs of a run."""

    def next_stage(self) -> None:
        """Count from now on only jobs that have not begun yet."""

    def tasks(self) -> Tasks:
        """Return how many tasks are done."""

    def cancel(self) -> None:
        """End the jobs that run."""


class Watch:
    """Says twice a second how a run does, and stops it when its row or its worker says so."""

    def __init__(
        self,
        run: PipelineRun,
        *,
        group: Group,
        meter: Meter,
        stopping: threading.Event,
        clock: Clock,
        say: Callable[[Progress], None] | None = None,
    ) -> None:
        """Watch nothing yet."""
        self._run = run
        self._group = group
        self._meter = meter
        self._stopping = stopping
        self._clock = clock
        self._say = say
        self._stage: tuple[str, int | None] = ("", None)
        self._ended = threading.Event()
        self._is_database_away = False
        self._written = Progress()
        self._written_ms = self._metered_ms = clock.monotonic_ms()
        self.why: Why | None = None
        self._thread = threading.Thread(target=self._loop, name="run-watch", daemon=True)

    def tell(self, stage: str, rows: int | None) -> None:
        """Begin a stage of which so many rows are expected; raise Stopped when it is not to be."""
        if self.why is not None:
            raise Stopped(self.why)
        self._group.next_stage()
        # One attribute, replaced as a whole: the thread sees a stage with its rows.
        self._stage = (stage, rows)

    def start(self) -> None:
        """Look twice a second, until `stop`."""
        self._meter.take()
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()
        self._meter.take()

    def look(self) -> None:
        """Look once: at the jobs, at the row, at whether to stop."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._metered_ms >= METER_EVERY_MS:
            self._metered_ms = now_ms
            self._meter.take()
        stage, rows = self._stage
        tasks = self._group.tasks() if stage else Tasks()
        progress = Progress(
            stage=stage, percent=tasks.percent, rows_read=tasks.rows_read, rows_expected=rows
        )
        told = self._exchange(progress, now_ms)
        if self.why is None and told is not None:
            if not told.is_ours:
                self.why = Why.LOST
            elif told.is_cancelled:
                self.why = Why.CANCELLED
        if self.why is None and self._stopping.is_set():
            self.why = Why.STOPPING
        if self.why is not None:
            # Each time: jobs that begin later are not among those that were cancelled before.
            self._group.cancel()

    def _exchange(self, progress: Progress, now_ms: int) -> Told | None:
        """Write what is new, or only ask; None while the database is away."""
        is_new = progress != self._written
        try:
            if not is_new and now_ms - self._written_ms < RENEW_EVERY_MS:
                told = claims.look(self._run)
            else:
                told = claims.renew(
                    self._run,
                    replace(
                        progress,
                        cpu_ms=self._meter.cpu_ms,
                        memory_bytes_max=self._meter.memory_bytes_max,
                    ),
                )
                self._written, self._written_ms = progress, now_ms
        except (OperationalError, InterfaceError) as error:
            if not self._is_database_away:
                _log.warning(
                    "run_without_database", extra={"run": self._run.pk, "detail": str(error)}
                )
            self._is_database_away = True
            connection.close()
            return None
        self._is_database_away = False
        if is_new and self._say is not None:
            self._say(progress)
        return told

    def _loop(self) -> None:
        try:
            while not self._ended.wait(LOOK_EVERY_S):
                self.look()
        finally:
            connection.close()
