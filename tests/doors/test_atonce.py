"""A coroutine that runs without a task until it waits, and with one from there on."""

import asyncio

import pytest

from apps.doors.http.atonce import at_once


async def test_what_does_not_wait_has_ended_when_the_call_returns() -> None:
    done = []

    async def work() -> None:
        done.append(True)

    assert at_once(work()) is None
    assert done == [True]


async def test_what_waits_goes_on_when_that_is_done_and_may_wait_again() -> None:
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
    seen = []

    async def work() -> None:
        seen.append(await first)
        await asyncio.sleep(0)
        try:
            await second
        except ValueError:
            seen.append("refused")

    task = at_once(work())
    assert task is not None
    first.set_result("first")
    second.set_exception(ValueError())
    await task

    assert seen == ["first", "refused"]


async def test_what_it_raises_is_the_callers_or_the_tasks() -> None:
    async def work(*, is_patient: bool) -> None:
        if is_patient:
            await asyncio.sleep(0)
        raise ValueError

    with pytest.raises(ValueError):
        at_once(work(is_patient=False))
    task = at_once(work(is_patient=True))
    assert task is not None
    with pytest.raises(ValueError):
        await task


async def test_a_cancellation_reaches_it() -> None:
    forever: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    told = []

    async def work() -> None:
        try:
            await forever
        finally:
            told.append(True)

    task = at_once(work())
    assert task is not None
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert told == [True]
