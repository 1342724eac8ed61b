"""Run a coroutine without a task until it waits. Knows coroutines and tasks only."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


def at_once(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
    """Run `work` in this turn of the loop as far as it goes; return the task of what is left.

    None when it has ended. Until it waits for the first time it has no task of its own, so it must
    not ask for one: no `asyncio.timeout` there. Raises what `work` raises before it waits.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return asyncio.ensure_future(_rest(_Begun(work, awaited)))


class _Begun:
    """A coroutine that waits for something already."""

    def __init__(self, work: Coroutine[Any, Any, None], awaited: object) -> None:
        self._work = work
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, None]:
        """Yield to the task what the coroutine yields, beginning with what it waits for."""
        awaited = self._awaited
        try:
            while True:
                try:
                    sent = yield awaited
                except BaseException as error:  # A cancellation too is for the coroutine.
                    awaited = self._work.throw(error)
                else:
                    awaited = self._work.send(sent)
        except StopIteration:
            return


async def _rest(begun: _Begun) -> None:
    await begun
