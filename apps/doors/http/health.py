"""/healthz and /readyz: what probes ask. Knows what of the engine's state makes it serve or not."""

from apps.doors.http import answers
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.shapes import Health
from apps.engine import limits
from apps.engine.errors import SyncStuck
from apps.engine.types import RoomState

_ALIVE = answers.json(200, Health("alive"))
_READY = {room: answers.json(200, Health("ready", room)) for room in RoomState}


def alive() -> Answer:
    """Answer that the process serves requests; asks nothing of the engine."""
    return _ALIVE


async def ready(_door: Door, call: Call) -> Answer:
    """Answer that the engine is open, and whether its store has room for sends.

    A closed one raises Stopping, and one whose disk does not finish a sync SyncStuck.
    """
    status = call.engine.status()
    if status.sync_ms >= limits.SYNC_STUCK_MS:
        raise SyncStuck(f"a sync takes {status.sync_ms} ms so far")
    return _READY[status.room]
