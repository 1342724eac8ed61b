"""What the mirrors of both directions are made of and stopped by. Knows neither direction."""

from abc import ABC, abstractmethod

from mqclient.clock import Clock, SystemClock
from mqclient.mirroring.pace import Pace
from mqclient.mirroring.settings import MirrorSettings
from mqclient.rocketmq.address import PeerSettings


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
