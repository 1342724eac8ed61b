"""Verbs of operators about a group's queues: care, resets, what-if. Knows when to wait."""

from collections.abc import Sequence

from apps.engine.caretypes import (
    CareAct,
    CareRequest,
    CareResult,
    ResetRequest,
    ResetResult,
    WhatIf,
    WhatIfRequest,
)
from apps.engine.grouptypes import QueuePlace
from apps.engine.local.host import Host


class OperatorVerbs:
    """The verbs of EngineControl by which people change where a group is."""

    _host: Host

    async def attend(self, request: CareRequest) -> CareResult:
        """Suspend or resume a queue, skip its head or park it; see EngineControl."""
        host, care = self._host, self._host.broker.queuecare
        host.check_serving()
        care.check(request)
        result = care.done_before(request)
        if result is None and request.act is CareAct.PARK:
            with host.broker.log.front.pins.held():
                read = await host.patiently(lambda wait: care.read(request, wait=wait))
                host.check_serving()
                # Somebody else may have been faster while the disk was waited for.
                result = care.done_before(request)
                if result is None:
                    with host.writing():
                        result = care.park(request, read)
        elif result is None:
            with host.writing():
                result = (
                    care.skip(request) if request.act is CareAct.SKIP else care.suspend(request)
                )
        return await host.recorded(result)

    async def reset_offsets(self, request: ResetRequest) -> ResetResult:
        """Have a group go on elsewhere; see EngineControl."""
        host = self._host
        host.check_serving()
        with host.writing():
            result = host.broker.resets.reset(request)
        return await host.recorded(result)

    async def offsets_at(self, places: Sequence[QueuePlace], time_ms: int) -> list[int]:
        """Return the first message of each queue from a time on; see EngineControl."""
        self._host.check_serving()
        return await self._host.patiently(self._host.broker.resets.offsets_at(places, time_ms))

    def what_if(self, request: WhatIfRequest) -> WhatIf:
        """Return how a group's queues would be shared out; see EngineControl."""
        return self._host.broker.what_if(request)
