"""Readers that wait for messages. Knows queues by name and an event loop, no messages."""

import asyncio
from collections.abc import Collection, Iterable

from apps.engine.errors import Overloaded

Key = tuple[str, int]


class Holds:
    """Parked readers by queue. A parked reader costs one future and nothing while it waits."""

    def __init__(self, *, parked_max: int) -> None:
        """Start with nobody parked."""
        self._parked_max = parked_max
        self._waiting: dict[Key, set[asyncio.Future[None]]] = {}
        self.parked = 0

    async def wait(self, keys: Collection[Key], *, wait_ms: int) -> None:
        """Return when one of the queues has something new, or after `wait_ms`.

        Raises Overloaded when too many wait already.
        """
        if self.parked >= self._parked_max:
            raise Overloaded(f"{self._parked_max} readers wait already")
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(wait_ms / 1000, _finish, woken)
        self.parked += 1
        for key in keys:
            self._waiting.setdefault(key, set()).add(woken)
        try:
            await woken
        finally:
            timer.cancel()
            self.parked -= 1
            for key in keys:
                self._leave(key, woken)

    def is_awaited(self, key: Key) -> bool:
        """Say whether anybody waits for the queue."""
        return key in self._waiting

    def wake(self, keys: Iterable[Key]) -> None:
        """Let the readers of these queues look again."""
        for key in keys:
            for woken in self._waiting.get(key, ()):
                _finish(woken)

    def wake_all(self) -> None:
        """Let every reader look again, as when the engine stops."""
        self.wake(list(self._waiting))

    def _leave(self, key: Key, woken: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.discard(woken)
            if not waiting:
                del self._waiting[key]


def _finish(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
