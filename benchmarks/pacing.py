"""Open-loop ticks: which messages are due now, for blocking clients and for event loops."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

from benchmarks.sides import TICK_S, Pace


def ticks(pace: Pace, count: int) -> Iterator[range]:
    """Yield the indexes that have become due, until `count` of them were yielded."""
    sent = 0
    while sent < count:
        due = min(count, pace.due_count(time.monotonic()))
        if due > sent:
            yield range(sent, due)
            sent = due
        time.sleep(TICK_S)


async def ticks_async(pace: Pace, count: int) -> AsyncIterator[range]:
    """Yield the indexes that have become due; the loop runs between ticks."""
    sent = 0
    while sent < count:
        due = min(count, pace.due_count(time.monotonic()))
        if due > sent:
            yield range(sent, due)
            sent = due
        await asyncio.sleep(TICK_S)
