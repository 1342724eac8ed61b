"""Bytes of requests and answers under way: what is refused, and that all of it is given back."""

import asyncio

import pytest

from apps.doors.http.inflight import InFlight, Share
from apps.doors.http.refusals import Refusal
from apps.engine.log.held import HeldBytes


def test_a_share_is_refused_what_does_not_fit_and_gives_back_what_it_holds() -> None:
    in_flight = InFlight(100)
    one, other = Share(in_flight), Share(in_flight)
    one.take(60)
    other.expect(40)
    with pytest.raises(Refusal) as refused:
        other.take(41)

    assert refused.value.kind.code == "overloaded"
    assert dict(refused.value.headers) == {b"retry-after": b"1"}
    assert (in_flight.bytes, other.bytes, in_flight.refused_count) == (60, 0, 1)
    one.release()
    one.release()
    other.take(100)
    assert in_flight.bytes == 100


def test_memory_counts_for_as_long_as_a_view_of_it_is_there() -> None:
    held = HeldBytes(bytes_max=100_000)
    views = [held.take(60_000).data[10:20] for _ in range(2)]
    assert (held.bytes, held.is_full) == (120_000, True)

    views.pop()
    assert (held.bytes, held.is_full) == (60_000, False)
    views.clear()
    assert held.bytes == 0


async def test_many_tasks_that_are_cancelled_leave_nothing_held() -> None:
    in_flight = InFlight(1_000)
    begun = asyncio.Event()

    async def request() -> None:
        share = Share(in_flight)
        try:
            share.take(10)
            begun.set()
            await asyncio.Event().wait()
        finally:
            share.release()

    tasks = [asyncio.create_task(request()) for _ in range(20)]
    await begun.wait()
    assert in_flight.bytes == 200
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert in_flight.bytes == 0
