"""What push consumers work on is kept from others for as long as they live. Knows leases and time.

One task waits for the first renewal that is due, and there is none while nothing is out.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from apps.doors.grpc.sessions import Session, Sessions
from apps.engine.api import EngineAPI
from apps.engine.clock import Clock
from apps.engine.errors import EngineError
from apps.engine.types import Settled

_log = logging.getLogger("mqweb.grpc")

# A lease is renewed when a third of its time is left: a renewal that fails may be made once more.
_PARTS, _PARTS_BEFORE = 3, 2
# Above it the oldest are not renewed any more: the engine holds as many leases for others too.
_LEASES_MAX = 200_000


@dataclass(frozen=True, slots=True)
class _Held:
    """A lease of a client: when it is to be renewed, and until when it may be at all."""

    due_ms: int
    until_ms: int
    group: str
    token: str
    session: Session


class Renewals:
    """Leases that are renewed while their clients are alive."""

    def __init__(
        self,
        engine_of: Callable[[], EngineAPI | None],
        sessions: Sessions,
        *,
        clock: Clock,
        invisible_ms: int,
        renewed_ms_max: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Hold nothing yet; `invisible_ms` is how long a lease lasts each time."""
        self._engine_of = engine_of
        self._sessions = sessions
        self._clock = clock
        self._invisible_ms = invisible_ms
        self._renewed_ms_max = renewed_ms_max
        self._sleep = sleep
        # Every lease waits equally long for its turn, so the first to come is the first due.
        self._held: deque[_Held] = deque()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Return how many leases are held; settled ones are among them until their turn."""
        return len(self._held)

    def hold(self, session: Session, group: str, tokens: list[str]) -> None:
        """Renew leases that were handed out now."""
        now_ms = self._clock.monotonic_ms()
        for token in tokens:
            self._hold(group, token, session, now_ms, now_ms + self._renewed_ms_max)
        if self._held and self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Renew nothing any more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        self._held.clear()

    def _hold(self, group: str, token: str, session: Session, now_ms: int, until_ms: int) -> None:
        wait_ms = self._invisible_ms * _PARTS_BEFORE // _PARTS
        self._held.append(_Held(now_ms + wait_ms, until_ms, group, token, session))
        if len(self._held) > _LEASES_MAX:
            self._held.popleft()

    async def _run(self) -> None:
        while self._held:
            left_ms = self._held[0].due_ms - self._clock.monotonic_ms()
            if left_ms > 0:
                await self._sleep(left_ms / 1000)
                continue
            await self._renew_due()
        self._task = None

    async def _renew_due(self) -> None:
        now_ms = self._clock.monotonic_ms()
        due: defaultdict[str, list[_Held]] = defaultdict(list)
        while self._held and self._held[0].due_ms <= now_ms:
            held = self._held.popleft()
            if now_ms < held.until_ms and self._sessions.is_alive(held.session):
                due[held.group].append(held)
        engine = self._engine_of()
        for group, leases in due.items() if engine is not None else ():
            assert engine is not None
            tokens = [held.token for held in leases]
            try:
                results = await engine.renew(group, tokens, invisible_ms=self._invisible_ms)
            except EngineError as error:
                # They come again to somebody when their time is over, as if the client had died.
                _log.warning("grpc_leases_not_renewed", extra={"group": group, "code": error.code})
                continue
            for held, result in zip(leases, results, strict=True):
                if result.outcome is Settled.OK:
                    self._hold(group, held.token, held.session, now_ms, held.until_ms)
