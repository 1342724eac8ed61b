"""How much was done and how fast, for people. Knows the error stream and a clock."""

import sys

from mqclient.clock import SystemClock

_SHOW_EVERY_S = 0.5


class Progress:
    """Counts messages; shows itself on a terminal only, and once more at the end."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._clock = SystemClock()
        self._start_s = self._clock.steady_s()
        self._shown_s = self._start_s
        self._is_terminal = sys.stderr.isatty()
        self.messages = 0
        self.bytes = 0

    def step(self, messages: int = 1) -> None:
        """Count messages that are done."""
        self.messages += messages
        if self._is_terminal:
            now_s = self._clock.steady_s()
            if now_s - self._shown_s >= _SHOW_EVERY_S:
                self._shown_s = now_s
                sys.stderr.write(f"\r{self._line(now_s)}\x1b[K")
                sys.stderr.flush()

    def finish(self) -> None:
        """Say the total."""
        start = "\r\x1b[K" if self._is_terminal else ""
        sys.stderr.write(f"{start}{self._line(self._clock.steady_s())}\n")

    def _line(self, now_s: float) -> str:
        seconds = max(now_s - self._start_s, 1e-9)
        return (
            f"{self._verb} {self.messages} messages, {self.bytes} bytes in {seconds:.3f} s,"
            f" {self.messages / seconds:.0f} messages/s"
        )
