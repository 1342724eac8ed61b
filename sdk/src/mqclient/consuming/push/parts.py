"""What both faces of the push consumer are made of. Knows no threads or loops."""

from mqclient.clock import Clock
from mqclient.consuming.push.core import PushCore
from mqclient.consuming.push.keeping import KeptOffsets
from mqclient.consuming.push.settings import PushSettings
from mqclient.consuming.push.tracing import DeliveryTrace
from mqclient.consuming.tracer import Tracer
from mqclient.consuming.traces import Mode, Teller
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.protocol.plans import Patience


class Parts:
    """Settings, requests, traces, and a broadcasting member's own offsets."""

    def __init__(
        self, settings: PushSettings, server: str, token: str | None, clock: Clock
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.endpoint = Endpoint.of(server, token)
        self.calls = Calls(self.endpoint)
        self.kept: KeptOffsets | None = None
        if settings.is_broadcasting:
            self.kept = KeptOffsets(settings.offsets_folder, settings.client_id, settings.group)
        self.tracer: Tracer | None = None
        if settings.trace:
            mode = Mode.ORDERED if settings.ordered else Mode.CONCURRENT
            if settings.is_broadcasting:
                mode = Mode.BROADCAST
            teller = Teller(group=settings.group, client_id=settings.client_id, mode=mode)
            self.tracer = Tracer(self.endpoint, teller, clock=clock)
        self._save_due_s = 0.0

    def core(self) -> PushCore:
        """Make the core; raise Conflict when another consumer keeps the same offsets."""
        kept = {} if self.kept is None else self.kept.open()
        trace = None
        if self.tracer is not None:
            trace = DeliveryTrace(self.tracer.tell, clock=self.clock)
        return PushCore(self.settings, self.calls, clock=self.clock, kept=kept, trace=trace)

    def patience(self, timeout_s: float) -> Patience:
        """Return for how long a plan tries."""
        return Patience(clock=self.clock, backoff=Backoff(), timeout_s=timeout_s)

    def is_save_due(self) -> bool:
        """Tell, once each time, whether a broadcasting member's offsets are to be kept."""
        now_s = self.clock.steady_s()
        if self.kept is None or now_s < self._save_due_s:
            return False
        self._save_due_s = now_s + self.settings.commit_s
        return True
