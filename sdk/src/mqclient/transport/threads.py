"""Drives a core with threads: as many as there is work for. Knows no meaning of the work."""

import logging
import math
import threading
from collections import deque
from typing import Any

from mqclient.clock import Clock
from mqclient.errors import ConnectionLost, MqError, ServerFailed
from mqclient.protocol.work import Job, Work
from mqclient.transport.blocking import Exchange, Pool

logger = logging.getLogger("mqclient")


class ThreadDriver:
    """Carries out the jobs of one core. Threads start on demand and live until `stop`."""

    def __init__(self, work: Work, pool: Pool, *, threads_max: int, clock: Clock, name: str):
        self._work = work
        self._pool = pool
        self._threads_max = threads_max
        self._clock = clock
        self._name = name
        # Entered by itself and not through the condition, whose entry is a Python function: an
        # interrupt inside that would leave the lock held for ever.
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._threads: list[threading.Thread] = []
        self._idle_count = 0
        self._kick_count = 0
        self._next_wake_s = math.inf
        self._is_stopped = False

    def kick(self) -> None:
        """Say that there may be work, or an earlier moment to look for it."""
        with self._lock:
            self._kick_count += 1
            if self._idle_count:
                self._wake.notify()
            elif len(self._threads) < self._threads_max and not self._is_stopped:
                thread = threading.Thread(
                    target=self._loop, name=f"{self._name}-{len(self._threads)}", daemon=True
                )
                # In this order: an interrupt in between leaves no thread that cannot be joined.
                thread.start()
                self._threads.append(thread)

    def run_one(self) -> bool:
        """Carry out one job in the calling thread; return False when there is none."""
        job = self._work.take()
        if job is None:
            return False
        self.carry_out(job)
        return True

    def carrier(self) -> "Carrier":
        """Return what carries out jobs in the calling thread, several under way at once."""
        return Carrier(self._work, self._pool)

    def kick_if_due(self) -> None:
        """Wake a thread when there is something left to do, or to wait for."""
        if self._work.wait_s() is not None:
            self.kick()

    def stop(self) -> None:
        """End the threads after the jobs they carry out."""
        with self._lock:
            self._is_stopped = True
            self._wake.notify_all()
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _loop(self) -> None:
        while True:
            seen = self._kick_count
            job = self._work.take()
            if job is not None:
                # Somebody else must watch the clock, and take what else is ready.
                self.kick_if_due()
                self.carry_out(job)
            elif not self._rest(seen):
                return

    def _rest(self, seen: int) -> bool:
        with self._lock:
            if self._is_stopped:
                return False
            if self._kick_count != seen:
                return True
            wait_s = self._work.wait_s()
            wake_s = math.inf if wait_s is None else self._clock.steady_s() + wait_s
            # One sleeper watches the clock; the others sleep until they are needed.
            is_watching = wake_s < self._next_wake_s
            if is_watching:
                self._next_wake_s = wake_s
            self._idle_count += 1
            self._wake.wait(wait_s if is_watching else None)
            self._idle_count -= 1
            if is_watching and self._next_wake_s == wake_s:
                self._next_wake_s = math.inf
            return not self._is_stopped

    def carry_out(self, job: Job) -> None:
        """Carry out one job in the calling thread, and tell the core what became of it."""
        answer, error = None, None
        try:
            answer = self._pool.call(job.call, job.timeout_s)
        except MqError as raised:
            error = raised
        except Exception as raised:
            # The main loop: whatever happens, the core must learn that the job is over.
            logger.exception("a request failed in an unforeseen way")
            error = ServerFailed(f"unforeseen: {raised!r}")
        except BaseException as raised:
            job.done(None, ServerFailed(f"interrupted: {raised!r}"))
            raise
        job.done(answer, error)


class Carrier:
    """Carries out jobs of a core in the thread that needs them.

    Requests are written as they come and answers read in that order, so the broker works while the
    next request is packed. A thread of its own for each would have to wait for the interpreter,
    which a packing thread gives up every 5 ms only.
    """

    def __init__(self, work: Work, pool: Pool) -> None:
        self._work = work
        self._pool = pool
        self._under_way: deque[tuple[Job, Exchange[Any]]] = deque()

    def begin(self) -> bool:
        """Write the request of the next job; return False when there is none just then."""
        job = self._work.take()
        if job is None:
            return False
        try:
            exchange = self._pool.begin(job.call, job.timeout_s)
        except MqError as error:
            job.done(None, error)
        except BaseException as raised:
            job.done(None, ServerFailed(f"interrupted: {raised!r}"))
            self.abandon()
            raise
        else:
            self._under_way.append((job, exchange))
        return True

    def finish(self) -> bool:
        """Read the answer that has been awaited longest; return False when there is none."""
        if not self._under_way:
            return False
        job, exchange = self._under_way.popleft()
        answer, failure = None, None
        try:
            answer = exchange.finish()
        except MqError as error:
            failure = error
        except BaseException as raised:
            job.done(None, ServerFailed(f"interrupted: {raised!r}"))
            self.abandon()
            raise
        job.done(answer, failure)
        return True

    def abandon(self) -> None:
        """Give up what is under way; its outcome is unknown."""
        while self._under_way:
            job, exchange = self._under_way.popleft()
            exchange.abandon()
            job.done(None, ConnectionLost("the sending thread was interrupted"))
