"""Runs a coroutine without a task. Knows nothing of what it does.

A task costs a turn of the event loop before its first step and one after its last. What a send
waits for, if anything, are futures, and calling back from those needs neither.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

_Value = TypeVar("_Value")
Done = Callable[[_Value | None, BaseException | None], None]


def run(coroutine: Coroutine[Any, Any, _Value], done: Done[_Value]) -> None:
    """Run a coroutine at once, as far as it goes, and the rest whenever what it awaits is there.

    `done` takes its value or what it raised, before this returns where nothing had to be awaited.
    The coroutine must not ask for its task, as time-outs do.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration as finished:
        done(finished.value, None)
    except (Exception, asyncio.CancelledError) as error:  # Whoever asked decides what follows.
        done(None, error)
    else:
        again = partial(_go_on, coroutine, done)
        if awaited is None:
            asyncio.get_running_loop().call_soon(again)
            return
        # What a task does with the future it is given; the future asks for it.
        awaited._asyncio_future_blocking = False
        awaited.add_done_callback(again)


def _go_on(
    coroutine: Coroutine[Any, Any, _Value], done: Done[_Value], _awaited: object = None
) -> None:
    run(coroutine, done)
