"""/healthz and /readyz: what probes ask. Knows whether the engine answers, nothing of its state."""

from apps.doors.http import answers
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.shapes import Health

_ALIVE = answers.json(200, Health("alive"))
_READY = answers.json(200, Health("ready"))


def alive() -> Answer:
    """Answer that the process serves requests; asks nothing of the engine."""
    return _ALIVE


async def ready(_door: Door, call: Call) -> Answer:
    """Answer that the engine is open; a closed one raises Stopping."""
    call.engine.status()
    return _READY
