"""How fast a mirror may be, how long it tries, and how it is asked to end. Knows a clock."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from mqclient.clock import Clock
from mqclient.errors import MqError
from mqclient.protocol.backoff import Backoff

T = TypeVar("T")

_PAUSE_S_MAX = 5.0


class Stopped(Exception):
    """The mirror was asked to end while it waited."""


@dataclass(slots=True, kw_only=True)
class Pace:
    """Keeps to `rate` messages a second, None for any; tries for `patience_s` at a time."""

    clock: Clock
    rate: float | None
    patience_s: float
    stop: threading.Event = field(default_factory=threading.Event)
    repeats: int = 0
    """How often something was tried again whose outcome was unknown: so many may be there twice."""
    _free_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def delay_s(self, count: int) -> float:
        """Return how long to wait before so many messages, and count them as sent after that."""
        if self.rate is None:
            return 0.0
        now_s = self.clock.steady_s()
        start_s = max(self._free_s, now_s)
        self._free_s = start_s + count / self.rate
        return start_s - now_s

    def keep(self, count: int) -> None:
        """Wait until so many messages may go; raise Stopped."""
        delay_s = self.delay_s(count)
        if delay_s > 0 and self.stop.wait(delay_s):
            raise Stopped

    def persist(self, action: Callable[[], T], *, after: Callable[[], None]) -> T:
        """Do it until it succeeds; raise Stopped, or the MqError that would not go away.

        Between tries `after` is done. An error that a repeat cannot mend is raised at once.
        """
        backoff = Backoff(first_s=0.1, longest_s=_PAUSE_S_MAX)
        deadline_s = self.clock.steady_s() + self.patience_s
        attempt = 0
        while True:
            try:
                if attempt:
                    after()
                return action()
            except MqError as error:
                attempt += 1
                pause_s = backoff.pause_s(attempt, error)
                is_hopeless = self.clock.steady_s() + pause_s > deadline_s
                if not error.retriable or is_hopeless:
                    raise
                if error.outcome == "unknown":
                    with self._lock:
                        self.repeats += 1
                if self.stop.wait(pause_s):
                    raise Stopped from error
