"""Who runs listeners: threads of an executor, or tasks of a loop. Know no requests.

A worker runs one batch after the other and ends when there is none; each that finds more than it
can take calls the next. So an executor that refuses a worker refuses no message: it stays in the
line, and the executor is asked again after a while.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor

from mqclient.clock import Clock
from mqclient.consuming.push.core import PushCore
from mqclient.consuming.push.listening import AsyncListener, Consumed, Delivery, Listener

logger = logging.getLogger("mqclient")

# RocketMQ's pause before a batch that was rejected is submitted again.
_REJECTED_PAUSE_S = 5.0
_LATER = "the listener asked for it later"


class ListenerThreads:
    """Runs a listener in the threads of an executor."""

    def __init__(
        self,
        core: PushCore,
        listener: Listener,
        *,
        executor: Executor,
        clock: Clock,
        after: Callable[[], None],
    ) -> None:
        self._core = core
        self._listener = listener
        self._executor = executor
        self._clock = clock
        self._after = after
        self._lock = threading.Lock()
        self._count = 0
        self._not_before_s = 0.0

    def offer(self) -> None:
        """Start one more worker unless there are enough."""
        with self._lock:
            is_late = self._clock.steady_s() < self._not_before_s
            if is_late or self._count >= self._core.settings.listeners_max:
                return
            self._count += 1
        try:
            self._executor.submit(self._work)
        except RuntimeError as error:
            with self._lock:
                self._count -= 1
                self._not_before_s = self._clock.steady_s() + _REJECTED_PAUSE_S
            logger.warning("a batch is rejected, and offered again: %s", error)
            self._core.offer_again_in(_REJECTED_PAUSE_S)

    def _work(self) -> None:
        delivery = self._core.next_delivery()
        while delivery is not None:
            if self._core.begin(delivery):
                delivery = self._run(delivery)
                self._after()
            else:
                delivery = self._core.next_delivery()
        with self._lock:
            self._count -= 1
        # What was lined up after the last look found this worker still counted.
        if self._core.has_ready:
            self.offer()

    def _run(self, delivery: Delivery) -> Delivery | None:
        result, failure = None, ""
        try:
            result = self._listener(delivery.messages, delivery.context)
        except Exception as error:
            # The main loop of listening: whatever happens in a listener, its queue must learn it.
            _log_failure(delivery, error)
            failure, delivery.error_class = repr(error), type(error).__name__
        except BaseException as error:
            delivery.error_class = type(error).__name__
            self._core.give_back(self._core.finish(delivery, Consumed.NOT_NOW, repr(error)))
            raise
        return self._core.finish(delivery, result, failure or _said(result))


class ListenerTasks:
    """Runs a listener in tasks of the running loop."""

    def __init__(
        self, core: PushCore, listener: AsyncListener, *, after: Callable[[], Awaitable[None]]
    ) -> None:
        self._core = core
        self._listener = listener
        self._after = after
        self._tasks: set[asyncio.Task[None]] = set()
        settings = core.settings
        # A queue's order does not survive a listener that was cut off, so it is left to run.
        self._timeout_s = None if settings.ordered else settings.consume_timeout_s

    def offer(self) -> None:
        """Start one more worker unless there are enough."""
        if len(self._tasks) < self._core.settings.listeners_max:
            task = asyncio.get_running_loop().create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def cancel(self) -> None:
        """Cancel the listeners that still run, and await their end."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        # What was lined up after the last look found this worker still counted.
        if self._core.has_ready:
            self.offer()

    async def _work(self) -> None:
        delivery = self._core.next_delivery()
        while delivery is not None:
            if self._core.begin(delivery):
                delivery = await self._run(delivery)
                await self._after()
                # A listener that never waits would keep the loop from everything else.
                await asyncio.sleep(0)
            else:
                delivery = self._core.next_delivery()

    async def _run(self, delivery: Delivery) -> Delivery | None:
        result, failure = None, ""
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                result = await self._listener(delivery.messages, delivery.context)
        except Exception as error:
            # The main loop of listening: whatever happens in a listener, its queue must learn it.
            _log_failure(delivery, error)
            failure, delivery.error_class = repr(error), type(error).__name__
            delivery.is_cut_off = limit.expired()
        except BaseException as error:
            delivery.error_class = type(error).__name__
            self._core.give_back(self._core.finish(delivery, Consumed.NOT_NOW, repr(error)))
            raise
        return self._core.finish(delivery, result, failure or _said(result))


def _said(result: object) -> str:
    if result is Consumed.SUCCESS:
        return ""
    return _LATER if result is Consumed.RETRY_LATER else f"the listener returned {result!r}"


def _log_failure(delivery: Delivery, error: Exception) -> None:
    """Say where a listener failed; of later attempts only that they did."""
    attempt = delivery.context.attempt
    logger.error(
        "a listener failed with %r, attempt %d: %r",
        delivery.messages[0], attempt, error, exc_info=error if attempt == 1 else None,
    )  # fmt: skip
