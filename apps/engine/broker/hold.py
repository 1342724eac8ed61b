"""Readers that wait: for messages of a queue, or for what changes about a group.

Knows keys, tag hashes and an event loop; no messages. A key is a queue (topic, number), a group
(group,) or a queue of a group (group, topic, number).
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Set

from apps.engine.errors import Overloaded

Key = tuple[str] | tuple[str, int] | tuple[str, str, int]
News = Callable[[Key], Set[int] | None]


class _Waiter:
    """One parked reader. `hashes` are the tags it takes, `is_due` whether it is worth waking."""

    __slots__ = ("hashes", "is_due", "woken")

    def __init__(
        self,
        woken: "asyncio.Future[None]",
        hashes: Set[int] | None,
        is_due: Callable[[], bool] | None,
    ) -> None:
        self.woken = woken
        self.hashes = hashes
        self.is_due = is_due

    def wake(self, tags: Set[int] | None = None) -> None:
        """Let the reader go on, unless it has no reason to."""
        if self.woken.done():
            return
        if tags is not None and self.hashes is not None and self.hashes.isdisjoint(tags):
            return
        if self.is_due is None or self.is_due():
            self.woken.set_result(None)


class Holds:
    """Parked readers by key. A parked reader costs one future and nothing while it waits."""

    def __init__(self, *, parked_max: int) -> None:
        """Start with nobody parked."""
        self._parked_max = parked_max
        self._waiting: dict[Key, set[_Waiter]] = {}
        self._all: set[_Waiter] = set()

    @property
    def parked(self) -> int:
        """Return how many readers wait."""
        return len(self._all)

    async def wait(
        self,
        keys: Collection[Key],
        *,
        wait_ms: int,
        hashes: Set[int] | None = None,
        is_due: Callable[[], bool] | None = None,
    ) -> None:
        """Return when something happened to one of the keys, or after `wait_ms`.

        A reader of some tags is not woken by messages that have none of their `hashes`, and never
        while `is_due` says no. Raises Overloaded when too many wait already.
        """
        if len(self._all) >= self._parked_max:
            raise Overloaded(f"{self._parked_max} readers wait already")
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop.create_future(), hashes, is_due)
        timer = loop.call_later(wait_ms / 1000, _finish, waiter.woken)
        self._all.add(waiter)
        for key in keys:
            self._waiting.setdefault(key, set()).add(waiter)
        try:
            await waiter.woken
        finally:
            timer.cancel()
            self._all.discard(waiter)
            for key in keys:
                self._leave(key, waiter)

    def is_awaited(self, key: Key) -> bool:
        """Say whether anybody waits for the key."""
        return key in self._waiting

    def wake(self, keys: Iterable[Key], news: News | None = None) -> None:
        """Let the readers of these keys look again.

        `news` tells the tag hashes of what came to a queue, None where it does not know; it is
        asked only about a queue that somebody reads by tag.
        """
        for key in keys:
            waiting = self._waiting.get(key)
            if waiting is None:
                continue
            tags = None
            if news is not None and any(waiter.hashes is not None for waiter in waiting):
                tags = news(key)
            for waiter in waiting:
                waiter.wake(tags)

    def look(self) -> None:
        """Wake every reader that has reason to look again, whether or not anything was told."""
        for waiter in self._all:
            waiter.wake()

    def release(self) -> None:
        """Let every reader go on, as when the engine stops."""
        for waiter in self._all:
            _finish(waiter.woken)

    def _leave(self, key: Key, waiter: _Waiter) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.discard(waiter)
            if not waiting:
                del self._waiting[key]


def _finish(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
