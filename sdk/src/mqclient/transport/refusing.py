"""What follows when a server does not serve the lane. Knows no sockets."""

import logging
import math

from mqclient.clock import Clock

logger = logging.getLogger("mqclient")

# After a refusal that may have to do with the server's state, the lane is asked for again so late.
_ASK_AGAIN_S = 30.0
_SERVER_TROUBLE = 500


class NotUpgraded(Exception):
    """The question for the lane had another answer than 101.

    `is_final` says that it will have the same the next time.
    """

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final

    @classmethod
    def by(cls, status: int) -> "NotUpgraded":
        """Return what an answer of this status means."""
        return cls(f"the server answered {status}", is_final=status < _SERVER_TROUBLE)


class Refusals:
    """When to ask for the lane, after it was refused. Any thread may use it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._not_before_s = -math.inf
        self._is_told = False

    def may_ask(self) -> bool:
        """Tell whether the lane may be asked for now."""
        return self._clock.steady_s() >= self._not_before_s

    def take(self, refusal: NotUpgraded) -> None:
        """Note a refusal; the first is logged."""
        pause_s = math.inf if refusal.is_final else _ASK_AGAIN_S
        self._not_before_s = self._clock.steady_s() + pause_s
        if not self._is_told:
            self._is_told = True
            logger.warning("no lane, sends go by HTTP: %s", refusal)
