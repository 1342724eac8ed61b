"""Keeps the parts of the product running, and stops them in order. Knows programs, not Django.

A part that dies is started again after a pause that doubles; one that ends with a final
code of its program ends everything, because its next start would end the same way.
"""

import logging
import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Protocol

from apps.bridge.children import Child, Program
from apps.bridge.exits import Exit
from apps.bridge.pauses import Pauses
from apps.engine.clock import Clock

PAUSE_MS_MIN = 500
PAUSE_MS_MAX = 30_000
# A broker needs a few seconds for open requests, a last projection and a clean mark in the log.
STOP_MS = 12_000
HARSHER_STOP_MS = 3_000
# How often the parts are looked at when no signal says that one has ended.
LOOK_MS = 1_000
LOOK_WHILE_STARTING_MS = 100

_log = logging.getLogger("mqweb.supervisor")


class Signals(Protocol):
    """Where the supervisor learns what has happened."""

    def wait(self, timeout_ms: int) -> signal.Signals | None:
        """Return the next signal, or None after the time-out."""
        ...


class ProcessSignals:
    """The signals of this process, in the order they came."""

    NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)

    def __init__(self) -> None:
        """Start empty; nothing is caught before `caught`."""
        # SimpleQueue.put may run inside a signal handler; Queue.put may not.
        self._arrived: queue.SimpleQueue[int] = queue.SimpleQueue()

    @contextmanager
    def caught(self) -> Iterator["ProcessSignals"]:
        """Catch the signals for the time of the block."""
        before = {number: signal.signal(number, self._put) for number in self.NUMBERS}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def wait(self, timeout_ms: int) -> signal.Signals | None:
        """Return the next signal, or None after the time-out."""
        try:
            return signal.Signals(self._arrived.get(timeout=timeout_ms / 1000))
        except queue.Empty:
            return None

    def _put(self, number: int, _frame: FrameType | None) -> None:
        self._arrived.put(number)


@dataclass(slots=True, kw_only=True)
class Part:
    """A program that should run, and how it has fared."""

    program: Program
    child: Child | None = None
    started_ms: int = 0
    pauses: Pauses = field(default_factory=lambda: Pauses(min_ms=PAUSE_MS_MIN, max_ms=PAUSE_MS_MAX))
    start_at_ms: int = field(default=0)


class Supervisor:
    """Start parts in order, keep them running until told to stop, stop them in reverse order."""

    def __init__(
        self,
        *,
        clock: Clock,
        signals: Signals,
        start: Callable[[Program], Child] = Child,
    ) -> None:
        """Hold no part yet."""
        self._clock = clock
        self._signals = signals
        self._start = start
        self._parts: list[Part] = []
        self._stopping = False

    def add(self, program: Program) -> None:
        """Start a part that is kept running from here on."""
        part = Part(program=program)
        self._parts.append(part)
        self._launch(part)

    def run_once(self, program: Program) -> int:
        """Run a program to its end and return its exit code; a signal to stop is passed on."""
        child = self._start(program)
        while (code := child.poll()) is None:
            if self._wait(LOOK_WHILE_STARTING_MS):
                child.send(program.stop_signal)
        return code

    def pause(self, seconds: float) -> None:
        """Wait, while signals are still noticed and parts that end are started again."""
        self._wait(int(seconds * 1000))
        self._look()

    @property
    def is_stopping(self) -> bool:
        """Say whether a signal has asked for the end."""
        return self._stopping

    def run(self, *, has_started: Callable[[], bool]) -> int:
        """Keep the parts running; return the exit code once everything has stopped.

        `has_started` is asked again and again until it answers true once.
        """
        started = False
        while not self._stopping:
            self._wait(LOOK_MS if started else LOOK_WHILE_STARTING_MS)
            final = self._look()
            if final is not None:
                self.stop()
                return final
            started = started or self._stopping or has_started()
        self.stop()
        return Exit.OK

    def stop(self) -> None:
        """Stop the parts, the last started first; harsher when one does not end in time."""
        self._stopping = True
        for part in reversed(self._parts):
            if part.child is not None:
                self._stop_child(part.child)
                part.child = None

    def _launch(self, part: Part) -> None:
        part.child = self._start(part.program)
        part.started_ms = self._clock.monotonic_ms()
        extra = {"part": part.program.name, "pid": part.child.pid}
        _log.info("part_started", extra=extra)

    def _look(self) -> int | None:
        """Note which parts have ended and start those whose pause is over; return a final code."""
        now_ms = self._clock.monotonic_ms()
        for part in list(self._parts):
            if part.child is None:
                if now_ms >= part.start_at_ms:
                    self._launch(part)
                continue
            code = part.child.poll()
            if code is None:
                continue
            part.child = None
            if code in part.program.final_codes:
                return code
            if code == Exit.OK and part.program.is_finite:
                self._parts.remove(part)
                continue
            if code in part.program.resting_codes:
                self._parts.remove(part)
                extra = {"part": part.program.name, "code": code}
                _log.error("part_given_up", extra=extra)
                continue
            pause_ms = part.pauses.after(now_ms - part.started_ms)
            part.start_at_ms = now_ms + pause_ms
            _log.error(
                "part_ended",
                extra={"part": part.program.name, "code": code, "again_in_ms": pause_ms},
            )
        return None

    def _wait(self, timeout_ms: int) -> bool:
        """Wait for a signal; return and remember whether it asks to stop."""
        number = self._signals.wait(timeout_ms)
        if number is None or number == signal.SIGCHLD:
            return False
        self._stopping = True
        return True

    def _stop_child(self, child: Child) -> None:
        steps: Sequence[tuple[signal.Signals, int]] = [
            (child.program.stop_signal, STOP_MS),
            *((number, HARSHER_STOP_MS) for number in child.program.harsher_signals),
        ]
        for number, patience_ms in steps:
            if child.poll() is not None:
                break
            child.send(number)
            deadline_ms = self._clock.monotonic_ms() + patience_ms
            while child.poll() is None and self._clock.monotonic_ms() < deadline_ms:
                # A second request to stop means: do not wait any longer.
                if self._wait(LOOK_WHILE_STARTING_MS):
                    break
        extra = {"part": child.program.name, "code": child.poll()}
        _log.info("part_stopped", extra=extra)
