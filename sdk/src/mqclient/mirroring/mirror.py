"""What the mirrors of both directions are made of and stopped by. Knows neither direction."""

from abc import ABC, abstractmethod

from mqclient.clock import Clock, SystemClock
from mqclient.errors import MqError
from mqclient.mirroring.pace import Pace
from mqclient.mirroring.settings import MirrorSettings
from mqclient.rocketmq.address import PeerSettings
from mqclient.rocketmq.statuses import LITES_EXHAUSTED


class Mirror(ABC):
    """Copies one topic; `run` returns at the end, or when `stop` is called from a thread."""

    def __init__(
        self,
        settings: MirrorSettings,
        peer: PeerSettings,
        server: str,
        *,
        token: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Connect nowhere yet."""
        self._settings = settings
        self._peer = peer
        self._server = server
        self._token = token
        self._clock = clock or SystemClock()
        self.pace = Pace(clock=self._clock, rate=settings.rate, patience_s=settings.patience_s)

    def stop(self) -> None:
        """Have `run` return after what is under way."""
        self.pace.stop.set()

    @abstractmethod
    def run(self) -> None:
        """Copy; raise MqError. What was not copied is copied by the next run of the group."""

    def pass_over(self, which: str, error: MqError) -> bool:
        """Pass over a message that a side will never take, and tell of it; False where it is not.

        Nor is it where that side may take it another time: for want of room for a lite topic, say.
        """
        is_for_ever = not error.retriable and error.outcome != "unknown"
        if self._settings.on_refused is None or not is_for_ever:
            return False
        if error.problem_code == LITES_EXHAUSTED:
            return False
        self._settings.on_refused(which, error)
        return True
