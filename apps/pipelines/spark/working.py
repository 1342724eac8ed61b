"""The loop of a worker: one session, one run at a time. Knows rows and what it was given."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from django.db import InterfaceError, OperationalError, connection

from apps.engine.clock import Clock
from apps.pipelines.models import PipelineRun, RunState
from apps.pipelines.services import claims

LOOK_EVERY_S = 1.0
# While the database is away.
PAUSE_S = 2.0

_log = logging.getLogger("mqweb.pipelines")


class Sessions(Protocol):
    """How sessions are made and ended."""

    def open(self) -> Any:
        """Return a new session."""

    def close(self, session: Any) -> None:
        """End a session, also one that does not answer."""

    def is_alive(self, session: Any) -> bool:
        """Say whether it can take another run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a session is ended and a new one made, and when the worker has nothing left to do.

    `idle_ms` None is never.
    """

    runs_max: int = 100
    memory_bytes_max: int = 4 * 1024**3
    idle_ms: int | None = None


@dataclass(slots=True, kw_only=True)
class Worker:
    """Takes runs until it is told to stop. `run` and `run_count` are read by other threads."""

    name: str
    sessions: Sessions
    carry_out: Callable[[Any, PipelineRun], RunState]
    memory_bytes: Callable[[], int]
    limits: Limits
    clock: Clock
    stopping: threading.Event
    wait: Callable[[float], object]
    session: Any = None
    run: PipelineRun | None = None
    run_count: int = 0
    _runs_of_session: int = 0
    _is_database_away: bool = False

    def work(self) -> None:
        """Take one run after the other; raise what making a session raises."""
        try:
            busy_ms = self.clock.monotonic_ms()
            while not self.stopping.is_set():
                if self._have_session():
                    # Making one takes long, and runs are asked for meanwhile.
                    busy_ms = self.clock.monotonic_ms()
                if self._step():
                    busy_ms = self.clock.monotonic_ms()
                elif self._is_idle_since(busy_ms):
                    return
                elif not self.stopping.is_set():
                    self.wait(PAUSE_S if self._is_database_away else LOOK_EVERY_S)
        finally:
            if self.session is not None:
                self.sessions.close(self.session)
                self.session = None

    def _step(self) -> bool:
        """Carry out a run if one waits; return whether one did."""
        try:
            claims.expire()
            run = claims.claim(self.name)
        except (OperationalError, InterfaceError) as error:
            connection.close()
            if not self._is_database_away:
                _log.warning("worker_without_database", extra={"detail": str(error)})
            self._is_database_away = True
            return False
        self._is_database_away = False
        if run is None:
            return False
        self.run = run
        try:
            self.carry_out(self.session, run)
        finally:
            self.run = None
            self.run_count += 1
            self._runs_of_session += 1
        return True

    def _have_session(self) -> bool:
        """Return whether a session had to be made."""
        if self.session is not None:
            reason = self._reason_to_recycle()
            if reason is None:
                return False
            _log.info("spark_recycled", extra={"reason": reason})
            self.sessions.close(self.session)
            self.session = None
        self.session = self.sessions.open()
        self._runs_of_session = 0
        return True

    def _reason_to_recycle(self) -> str | None:
        if not self.sessions.is_alive(self.session):
            return "it does not answer"
        if self._runs_of_session >= self.limits.runs_max:
            return f"it has had {self._runs_of_session} runs"
        # Read after runs alone: between them nothing grows.
        if self._runs_of_session and self.memory_bytes() > self.limits.memory_bytes_max:
            return "it takes too much memory"
        return None

    def _is_idle_since(self, busy_ms: int) -> bool:
        idle_ms = self.limits.idle_ms
        return idle_ms is not None and self.clock.monotonic_ms() - busy_ms >= idle_ms
