"""How long to wait before another try. Knows numbers only."""

import random
from dataclasses import dataclass, field

from mqclient.errors import MqError


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Doubling pauses with full jitter, so that many clients do not come back together."""

    first_s: float = 0.02
    longest_s: float = 1.0
    rng: random.Random = field(default_factory=random.Random)

    def pause_s(self, attempt: int, error: MqError | None = None) -> float:
        """Return the pause after the attempt of this number, from 1 on.

        A broker that says when to come back is obeyed, up to a second more than the longest; the
        pause comes on top, or all who were told the same would come back at the same moment.
        """
        ceiling_s = min(self.longest_s, self.first_s * (1 << min(attempt - 1, 16)))
        pause_s = ceiling_s * self.rng.uniform(0.5, 1.0)
        if error is not None and error.retry_after_s is not None:
            return pause_s + min(error.retry_after_s, self.longest_s + 1.0)
        return pause_s
