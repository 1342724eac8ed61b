"""A coroutine without a task: at once as far as it goes, and on from what it waits for."""

import asyncio
from typing import Any

import pytest

from apps.doors import steps


class Ends:
    """What was told of an end, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, BaseException | None]] = []

    def __call__(self, value: Any, error: BaseException | None) -> None:
        self.told.append((value, error))

    async def come(self) -> None:
        while not self.told:
            await asyncio.sleep(0)


@pytest.fixture
def ends() -> Ends:
    return Ends()


async def test_what_does_not_wait_has_ended_when_the_call_returns(ends: Ends) -> None:
    async def work() -> str:
        return "done"

    steps.run(work(), ends)

    assert ends.told == [("done", None)]


async def test_what_waits_goes_on_when_that_is_done_and_may_wait_again(ends: Ends) -> None:
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
    seen = []

    async def work() -> None:
        seen.append(await first)
        await asyncio.sleep(0)
        try:
            await second
        except ValueError:
            seen.append("refused")

    steps.run(work(), ends)
    assert ends.told == []
    first.set_result("first")
    second.set_exception(ValueError())
    await ends.come()

    assert seen == ["first", "refused"]
    assert ends.told == [(None, None)]


@pytest.mark.parametrize("is_patient", [False, True])
async def test_what_it_raises_is_told(ends: Ends, is_patient: bool) -> None:
    async def work() -> None:
        if is_patient:
            await asyncio.sleep(0)
        raise ValueError

    steps.run(work(), ends)
    await ends.come()

    ((value, error),) = ends.told
    assert value is None
    assert isinstance(error, ValueError)


async def test_a_cancellation_of_what_it_waits_for_reaches_it(ends: Ends) -> None:
    forever: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    told = []

    async def work() -> None:
        try:
            await forever
        finally:
            told.append(True)

    steps.run(work(), ends)
    forever.cancel()
    await ends.come()

    assert told == [True]
    ((_, error),) = ends.told
    assert isinstance(error, asyncio.CancelledError)
