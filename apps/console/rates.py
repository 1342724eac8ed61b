"""Rates of counters over a short window. Pure: knows the numbers and times it is given, no clock.

A rate is known after two samples of the same rising run. A counter that falls has been started
anew, and one that was absent is new: both are unknown until the next sample, never negative or 0.
"""

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

# Long enough to smooth batches, short enough that a stop is seen within a few seconds.
WINDOW_MS = 5_000


class RateWindow:
    """The last seconds of many counters that are read together."""

    def __init__(self, *, window_ms: int = WINDOW_MS) -> None:
        self._window_ms = window_ms
        self._samples: deque[_Sample] = deque()
        # The number of the sample with which the counter began to rise without a break.
        self._rising_since: dict[Hashable, int] = {}

    def add(self, at_ms: int, counters: Mapping[Hashable, int]) -> None:
        """Take one reading of every counter at a monotonic time in milliseconds."""
        previous = self._samples[-1] if self._samples else _Sample(number=0, at_ms=0, counters={})
        number = previous.number + 1
        since, before = self._rising_since, previous.counters
        if counters != before:  # Most readings of a quiet store are the same.
            self._rising_since = {
                key: since[key] if key in before and value >= before[key] else number
                for key, value in counters.items()
            }
        self._samples.append(_Sample(number=number, at_ms=at_ms, counters=counters))
        # The sample before the newest stays however old: an average over a long pause is true.
        while len(self._samples) > 2 and self._samples[0].at_ms < at_ms - self._window_ms:
            self._samples.popleft()

    @property
    def sample_count(self) -> int:
        """Return how many readings the window holds."""
        return len(self._samples)

    def rate(self, key: Hashable) -> float | None:
        """Return the counter's growth per second over the window; None when it is unknown."""
        since = self._rising_since.get(key)
        if since is None:
            return None

        newest = self._samples[-1]
        oldest = self._samples[0]
        if oldest.number < since:
            oldest = next(sample for sample in self._samples if sample.number >= since)
        elapsed_ms = newest.at_ms - oldest.at_ms
        if elapsed_ms == 0:
            return None
        return (newest.counters[key] - oldest.counters[key]) * 1000 / elapsed_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    number: int
    at_ms: int
    counters: Mapping[Hashable, int]
