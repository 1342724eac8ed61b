"""Messages on their way, and the promise of their result. Knows no queues, sockets or loops."""

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from itertools import repeat
from typing import Any

from mqclient.errors import MqError, TimedOut
from mqclient.values import AckMode, BatchReceipt, SendResult

# A queue number, a sharding key, a choice by the number of queues, or None: any queue.
Route = int | str | Callable[[int], int | None] | None
# Body and properties of one message.
Draft = tuple[bytes, bytes]


class Parcel:
    """Messages that travel together to one queue, and what became of them.

    Any number of threads and tasks may wait for it. Only the core that carries it settles it.
    """

    __slots__ = (
        "_callbacks",
        "_lock",
        "ack",
        "born_ms",
        "deadline_s",
        "deliver_at_ms",
        "drafts",
        "error",
        "first_sequence",
        "ids",
        "is_delayed",
        "is_done",
        "may_be_stored",
        "queue",
        "queue_offset",
        "recall_handles",
        "route",
        "size_bytes",
        "stamp",
        "store_time_ms",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        drafts: Sequence[Draft],
        ids: Sequence[bytes],
        *,
        route: Route,
        ack: AckMode,
        born_ms: int,
        deadline_s: float,
        size_bytes: int,
        lock: threading.Lock,
        is_delayed: bool = False,
    ) -> None:
        self.topic = topic
        self.drafts = drafts
        self.ids = ids
        self.route = route
        self.ack = ack
        self.born_ms = born_ms
        self.deadline_s = deadline_s
        self.size_bytes = size_bytes
        self.is_delayed = is_delayed
        # The number of the first message, by which the broker knows a repeat; None without one.
        self.first_sequence: int | None = None
        # Properties for the queue it goes to; None before they are known.
        self.stamp: bytes | None = None
        self.may_be_stored = False
        self.is_done = False
        self.error: MqError | None = None
        self.queue = -1
        self.queue_offset: int | None = None
        self.store_time_ms: int | None = None
        self.recall_handles: tuple[str | None, ...] = ()
        self.deliver_at_ms: tuple[int | None, ...] = ()
        self._lock = lock
        self._callbacks: list[Callable[[], None]] | None = None

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back once, from whichever thread settles the parcel; at once when it is settled."""
        with self._lock:
            if not self.is_done:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(callback)
                return
        callback()

    def settle(
        self, queue: int, receipt: BatchReceipt | None, index: int
    ) -> Sequence[Callable[[], None]]:
        """Take the place of the first message; return the callbacks, to be called unlocked."""
        self.queue = queue
        if receipt is not None:
            if receipt.queue_offset is not None:
                self.queue_offset = receipt.queue_offset + index
            self.store_time_ms = receipt.store_time_ms
            if receipt.recall_handles:
                end = index + len(self.ids)
                self.recall_handles = receipt.recall_handles[index:end]
                self.deliver_at_ms = receipt.deliver_at_ms[index:end]
        return self._finish()

    def fail(self, error: MqError) -> Sequence[Callable[[], None]]:
        """Take the error; return the callbacks, to be called unlocked."""
        self.error = error
        return self._finish()

    def result(self) -> SendResult:
        """Return the result of the first message; raise the error."""
        if self.error is not None:
            raise self.error
        return SendResult(
            self.ids[0].decode("ascii"),
            self.topic,
            self.queue,
            self.queue_offset,
            self.store_time_ms,
            self.recall_handles[0] if self.recall_handles else None,
            self.deliver_at_ms[0] if self.deliver_at_ms else None,
        )

    def results(self) -> list[SendResult]:
        """Return a result for each message; raise the error."""
        first, count = self.queue_offset, len(self.ids)
        if self.error is not None or count == 1:
            return [self.result()]
        queue_offsets = repeat(None) if first is None else range(first, first + count)
        same = repeat(self.topic), repeat(self.queue), queue_offsets, repeat(self.store_time_ms)
        later = self.recall_handles or repeat(None), self.deliver_at_ms or repeat(None)
        message_ids = [message_id.decode("ascii") for message_id in self.ids]
        # The class's own constructor is a Python call; this is none.
        return list(map(SendResult._make, zip(message_ids, *same, *later, strict=False)))

    def _finish(self) -> Sequence[Callable[[], None]]:
        self.is_done = True
        # The bodies are not needed any more, and a future may be kept for long.
        self.drafts = ()
        callbacks = self._callbacks or ()
        self._callbacks = None
        return callbacks


class SendFuture:
    """The result of one message sent without waiting. Wait for it in a thread, or await it."""

    __slots__ = ("_parcel",)

    def __init__(self, parcel: Parcel) -> None:
        self._parcel = parcel

    def done(self) -> bool:
        """Tell whether the result or the error is there."""
        return self._parcel.is_done

    def result(self, timeout_s: float | None = None) -> SendResult:
        """Wait for the result; raise the send's error, or TimedOut when the wait is over first."""
        if not self._parcel.is_done:
            self._wait(timeout_s)
        return self._parcel.result()

    def exception(self, timeout_s: float | None = None) -> MqError | None:
        """Wait for the end; return the error, None after a success."""
        self._wait(timeout_s)
        return self._parcel.error

    def add_done_callback(self, callback: Callable[["SendFuture"], Any]) -> None:
        """Call back once with this future, from the thread that learns the result; be quick."""
        self._parcel.when_done(lambda: callback(self))

    def __await__(self) -> Generator[Any, None, SendResult]:
        yield from settled(self._parcel).__await__()
        return self._parcel.result()

    def _wait(self, timeout_s: float | None) -> None:
        if not wait_for(self._parcel, timeout_s):
            raise TimedOut(f"no result within {timeout_s} s; the send goes on")


def wait_for(parcel: Parcel, timeout_s: float | None) -> bool:
    """Block until the parcel is settled; return False when the time is over first."""
    if parcel.is_done:
        return True
    event = threading.Event()
    parcel.when_done(event.set)
    return event.wait(timeout_s)


async def settled(parcel: Parcel) -> None:
    """Await the parcel's end, whichever thread brings it."""
    if parcel.is_done:
        return
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def release() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake() -> None:
        loop.call_soon_threadsafe(release)

    parcel.when_done(wake)
    await waiter
