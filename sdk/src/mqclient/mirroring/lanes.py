"""Many messages under way at once, and those of one key one after the other. Knows no protocol."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


def lanes_of(items: Iterable[T], key_of: Callable[[T], Hashable | None]) -> list[list[T]]:
    """Return items in lanes, in order: one lane a key, and one for each item without a key."""
    keyed: dict[Hashable, list[T]] = {}
    lanes = []
    for item in items:
        key = key_of(item)
        lane = None if key is None else keyed.get(key)
        if lane is None:
            lane = []
            lanes.append(lane)
            if key is not None:
                keyed[key] = lane
        lane.append(item)
    return lanes


class Lanes(Generic[T]):
    """Carries batches out with some threads; use it as a context manager."""

    def __init__(
        self, carry: Callable[[T], None], *, key_of: Callable[[T], Hashable | None], in_flight: int
    ) -> None:
        """Start no thread before it is wanted; `carry` returns when an item is stored."""
        self._carry = carry
        self._key_of = key_of
        self._threads = ThreadPoolExecutor(in_flight, thread_name_prefix="mqclient-mirror")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._threads.shutdown(cancel_futures=True)

    def carry_out(self, items: Sequence[T]) -> None:
        """Return when all are stored.

        The first error is raised when nothing is under way any more; of a lane nothing follows
        the item that failed.
        """
        lanes = lanes_of(items, self._key_of)
        running = [self._threads.submit(self._follow, lane) for lane in lanes]
        wait(running)
        for one in running:
            one.result()

    def _follow(self, lane: list[T]) -> None:
        for item in lane:
            self._carry(item)
