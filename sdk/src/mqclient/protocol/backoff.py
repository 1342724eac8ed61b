"""How long to wait before another try. Knows numbers only."""

import random
import threading
from collections import Counter
from dataclasses import dataclass, field

from mqclient.errors import MqError

# A broker that says more is asked again after this all the same.
RETRY_AFTER_S_MAX = 30.0
_rng = random.Random()
_lock = threading.Lock()
_told: Counter[str] = Counter()


def told_s(error: MqError | None, rng: random.Random = _rng) -> float:
    """Return how long the broker asks to be left alone, 0.0 where it does not.

    Up to a fifth is added, or all who were told the same would come back at the same moment. It is
    counted by the error's code.
    """
    if error is None or error.retry_after_s is None:
        return 0.0
    with _lock:
        _told[error.problem_code] += 1
    return min(max(error.retry_after_s, 0.0), RETRY_AFTER_S_MAX) * rng.uniform(1.0, 1.2)


def told_to_wait() -> dict[str, int]:
    """Return how often the clients of this process were told to come back later, by code."""
    with _lock:
        return dict(_told)


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Doubling pauses with full jitter, so that many clients do not come back together."""

    first_s: float = 0.02
    longest_s: float = 1.0
    rng: random.Random = field(default_factory=random.Random)

    def pause_s(self, attempt: int, error: MqError | None = None) -> float:
        """Return the pause after the attempt of this number, from 1 on.

        What a broker that says when to come back asked for comes on top.
        """
        ceiling_s = min(self.longest_s, self.first_s * (1 << min(attempt - 1, 16)))
        return ceiling_s * self.rng.uniform(0.5, 1.0) + told_s(error, self.rng)
