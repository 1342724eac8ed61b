"""Parked readers: who wakes whom, and who is left alone."""

import asyncio
from collections.abc import Set

import pytest

from apps.engine.broker.hold import Holds, Key
from apps.engine.errors import Overloaded

ORDERS: Key = ("orders", 0)
BILLS: Key = ("bills", 0)


async def parked(holds: Holds, *keys: Key, **how: object) -> "asyncio.Task[None]":
    """Park a reader for half a minute, unless told otherwise."""
    wait_ms = how.pop("wait_ms", 30_000)
    before = holds.parked
    waiting = asyncio.create_task(holds.wait(keys, wait_ms=wait_ms, **how))  # type: ignore[arg-type]
    while holds.parked == before and not waiting.done():
        await asyncio.sleep(0)
    return waiting


async def is_woken(waiting: "asyncio.Task[None]") -> bool:
    for _ in range(3):
        await asyncio.sleep(0)
    return waiting.done()


async def released(holds: Holds, *waiting: "asyncio.Task[None]") -> None:
    holds.release()
    await asyncio.gather(*waiting)
    assert holds.parked == 0
    assert not any(map(holds.is_awaited, (ORDERS, BILLS, ("g",))))


async def test_a_reader_of_one_queue_is_not_woken_by_another() -> None:
    holds = Holds(parked_max=10)
    waiting = await parked(holds, ORDERS)

    holds.wake([BILLS])
    assert not await is_woken(waiting)
    holds.wake([ORDERS])

    assert await is_woken(waiting)
    await released(holds)


async def test_a_reader_may_wait_for_a_queue_and_for_its_group() -> None:
    holds = Holds(parked_max=10)
    waiting = await parked(holds, ORDERS, ("g",), ("g", "orders", 0))

    holds.wake([("g", "orders", 0)])

    assert await is_woken(waiting)
    await released(holds)


async def test_messages_of_other_tags_wake_no_reader_by_tag() -> None:
    holds = Holds(parked_max=10)
    of_tags = await parked(holds, ORDERS, hashes={1, 2})
    of_all = await parked(holds, ORDERS)

    holds.wake([ORDERS], lambda key: {3, 4})

    assert await is_woken(of_all)
    assert not await is_woken(of_tags)
    holds.wake([ORDERS], lambda key: {2, 4})
    assert await is_woken(of_tags)
    await released(holds)


async def test_news_that_are_not_known_wake_everybody() -> None:
    holds = Holds(parked_max=10)
    waiting = await parked(holds, ORDERS, hashes={1})

    holds.wake([ORDERS], lambda key: None)

    assert await is_woken(waiting)
    await released(holds)


async def test_news_are_asked_for_once_a_queue_and_only_where_somebody_reads_by_tag() -> None:
    holds = Holds(parked_max=10)
    waiting = [await parked(holds, ORDERS, hashes={1}) for _ in range(5)]
    waiting.append(await parked(holds, BILLS))
    asked: list[Key] = []

    def news(key: Key) -> Set[int]:
        asked.append(key)
        return {9}

    holds.wake([ORDERS, BILLS, ("other", 0)], news)

    assert asked == [ORDERS]
    await released(holds, *waiting)


async def test_a_look_wakes_those_that_have_reason() -> None:
    holds = Holds(parked_max=10)
    ready: list[bool] = []
    waiting = await parked(holds, ORDERS, is_due=lambda: bool(ready))
    always = await parked(holds, ORDERS)

    holds.look()
    assert await is_woken(always)
    assert not await is_woken(waiting)
    ready.append(True)
    holds.look()

    assert await is_woken(waiting)
    await released(holds)


async def test_release_wakes_also_those_that_have_no_reason() -> None:
    holds = Holds(parked_max=10)
    waiting = await parked(holds, ORDERS, hashes={1}, is_due=lambda: False)

    await released(holds, waiting)


async def test_a_wait_ends_at_its_time() -> None:
    holds = Holds(parked_max=10)
    waiting = await parked(holds, ORDERS, wait_ms=1)

    await asyncio.wait_for(waiting, timeout=25)

    await released(holds)


async def test_too_many_readers_are_turned_away() -> None:
    holds = Holds(parked_max=1)
    waiting = await parked(holds, ORDERS)

    with pytest.raises(Overloaded):
        await holds.wait([BILLS], wait_ms=1)

    await released(holds, waiting)


async def test_a_cancelled_reader_leaves_nothing_behind() -> None:
    holds = Holds(parked_max=10)
    waiting = await parked(holds, ORDERS, ("g",))

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    await released(holds)
