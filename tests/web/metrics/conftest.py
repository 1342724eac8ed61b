"""What tests of the statistics share: an installed engine of numbers, a clock, and threads."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from django.db import connection

from apps.bridge import engine as bridge
from tests.web.metrics.fakes import HandClock, NumberEngine

Answer = TypeVar("Answer")


@pytest.fixture
def engine() -> Iterator[NumberEngine]:
    """Install an engine of numbers for the time of a test."""
    numbers = NumberEngine()
    bridge.install(numbers, None)  # type: ignore[arg-type]
    yield numbers
    bridge.remove()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def at_once(work: Callable[[], Answer], *, threads: int = 2) -> list[Answer]:
    """Carry out work in threads that begin together; return what each returned."""
    start = threading.Barrier(threads)

    def carried_out() -> Answer:
        try:
            start.wait(timeout=60)
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(carried_out) for _ in range(threads)]
        return [future.result(timeout=60) for future in futures]
