"""Waits that end early: when their caller loses a right it needs, or when the door closes.

Knows rights and tasks, no method.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from apps.access.gate import Rights
from apps.doors.http.rights import AnyRights
from apps.engine.errors import Stopping

_Value = TypeVar("_Value")


class Waits:
    """What callers of one door wait for at this moment."""

    def __init__(self) -> None:
        """Wait for nothing."""
        self._ends: set[Callable[[Exception], None]] = set()
        self._is_over = False

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._ends)

    async def on(self, rights: AnyRights, work: Coroutine[Any, Any, _Value]) -> _Value:
        """Await `work`; cancel it and raise Denied when the caller may not go on, or Stopping.

        What was required of `rights` so far counts. A caller that is cancelled cancels the work.
        """
        task = asyncio.ensure_future(work)
        reasons: list[Exception] = []

        def end(reason: Exception) -> None:
            reasons.append(reason)
            task.cancel()

        watch = rights.watched(end) if isinstance(rights, Rights) else None
        self._ends.add(end)
        if self._is_over:
            end(_stopping())
        try:
            return await task
        except asyncio.CancelledError:
            if reasons and task.cancelled():
                raise reasons[0] from None
            raise
        finally:
            self._ends.discard(end)
            if watch is not None:
                watch.rights.unwatch(watch)
            task.cancel()

    def end(self) -> None:
        """End all that wait, and whoever comes to wait from here on."""
        self._is_over = True
        for end in list(self._ends):
            end(_stopping())


def _stopping() -> Stopping:
    return Stopping("the broker is stopping")
