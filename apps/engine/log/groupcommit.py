"""Many waiters, one sync. Knows an event loop and a log; not what was written, nor for whom.

RocketMQ's group commit: requests that come while a sync is under way wait in a list of their own
and share the next one; the two lists are swapped when a sync begins. Its asynchronous flush is here
too: what nobody waits for is synced at a pace, and not for less than so many pages until the
thorough interval is over.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from apps.engine.clock import Clock
from apps.engine.config import EngineConfig
from apps.engine.errors import EngineError, FlushTimeout, Stopping, SyncFailed
from apps.engine.log.commitlog import CommitLog

_PAGE_BYTES = 4096


class _Waiter:
    """Somebody who waits for a log offset to be on the disk, and until when; None: for ever."""

    __slots__ = ("deadline_ms", "log_offset", "synced")

    def __init__(
        self, log_offset: int, synced: "asyncio.Future[None]", deadline_ms: int | None
    ) -> None:
        self.log_offset = log_offset
        self.synced = synced
        self.deadline_ms = deadline_ms


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Call nothing."""
        ...


class GroupCommit:
    """Sync a log on demand, and at the latest every flush interval. Needs a running loop."""

    def __init__(
        self,
        log: CommitLog,
        *,
        run_in_thread: Callable[[Callable[[], None]], Awaitable[None]],
        config: EngineConfig,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        call_later: Callable[[float, Callable[[], None]], Timer],
        on_fatal: Callable[[EngineError], None],
    ) -> None:
        """Start flushing. `on_fatal` is called once, when a sync failed: nothing works then."""
        self.timeout_count = 0
        self._log = log
        self._run_in_thread = run_in_thread
        self._config = config
        self._clock = clock
        self._sleep = sleep
        self._call_later = call_later
        self._on_fatal = on_fatal
        self._on_synced: list[Callable[[int], None]] = []
        self._waiting: list[_Waiter] = []
        self._syncing: list[_Waiter] = []
        self._is_asked = False
        self._is_closing = False
        self._failure: EngineError | None = None
        self._worker: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._began_ms: int | None = None
        self._synced_ms = clock.monotonic_ms()
        self._flusher = asyncio.create_task(self._flush_regularly())

    def on_synced(self, callback: Callable[[int], None]) -> None:
        """Call back with the synced offset after every sync, before its waiters go on."""
        self._on_synced.append(callback)

    @property
    def sync_ms(self) -> int:
        """Return how long the disk has been working at the sync under way; 0 while none is."""
        return 0 if self._began_ms is None else self._clock.monotonic_ms() - self._began_ms

    @property
    def is_stuck(self) -> bool:
        """Say whether the sync under way takes longer than anybody waits for one."""
        return self._began_ms is not None and self.sync_ms >= self._config.flush_timeout_ms

    async def durable(self, log_offset: int, *, is_patient: bool = False) -> None:
        """Return when the log is on the disk up to `log_offset`, which must be written.

        Raises FlushTimeout when that takes too long: it is in the log, and may or may not survive a
        power cut; who is patient waits on. Raises SyncFailed when it cannot be said, Stopping after
        `close`.
        """
        if log_offset <= self._log.synced_offset:
            return
        self._check()
        assert log_offset <= self._log.written_offset
        synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        deadline_ms = None
        if not is_patient:
            deadline_ms = self._clock.monotonic_ms() + self._config.flush_timeout_ms
        self._waiting.append(_Waiter(log_offset, synced, deadline_ms))
        if self._timer is None:
            self._arm()
        self._start()
        await synced

    def request_sync(self) -> None:
        """Have what is written synced soon, and do not wait. Does nothing after a failure."""
        if self._failure is None and not self._is_closing:
            self._is_asked = True
            self._start()

    async def close(self) -> None:
        """Sync what is written, answer all waiters and stop. Raises SyncFailed."""
        self._is_closing = True
        self._flusher.cancel()
        await asyncio.gather(self._flusher, return_exceptions=True)
        if self._failure is None:
            self._is_asked = True
            self._start()
        if self._worker is not None:
            await self._worker
        self._disarm()
        if self._failure is not None:
            raise SyncFailed("a sync failed") from self._failure

    def _check(self) -> None:
        if self._failure is not None:
            raise SyncFailed("a sync failed") from self._failure
        if self._is_closing:
            raise Stopping("the log is being closed")

    def _start(self) -> None:
        # The task begins in the next turn of the loop: who asks in this one shares its sync.
        if self._worker is None:
            self._worker = asyncio.create_task(self._sync_while_asked())

    async def _sync_while_asked(self) -> None:
        try:
            while self._is_asked or self._waiting:
                self._is_asked = False
                self._swap_requests()
                await self._sync_once()
        except EngineError as error:
            self._fail(error)
        except Exception as error:
            # Whatever it was: who waits here must not wait for ever.
            failure = SyncFailed("the syncing of the log came to a halt")
            failure.__cause__ = error
            self._fail(failure)
        finally:
            self._worker = None

    def _swap_requests(self) -> None:
        """Let the sync that begins serve all who came so far; who comes now waits for the next."""
        assert not self._syncing
        self._waiting, self._syncing = self._syncing, self._waiting

    async def _sync_once(self) -> None:
        ticket = self._log.begin_sync()
        if ticket is not None:
            with suppress(SyncFailed):  # `finish_sync` raises it again.
                await self._in_thread(ticket.run)
            self._log.finish_sync(ticket)
            self._synced_ms = self._clock.monotonic_ms()
            for callback in self._on_synced:
                callback(ticket.target)
        for waiter in self._syncing:
            assert waiter.log_offset <= self._log.synced_offset
            if not waiter.synced.done():
                waiter.synced.set_result(None)
        self._syncing.clear()
        if not self._waiting:
            self._disarm()
        if self._log.wants_segment:
            await self._in_thread(self._log.create_ahead)

    async def _in_thread(self, work: Callable[[], None]) -> None:
        self._began_ms = self._clock.monotonic_ms()
        try:
            await self._run_in_thread(work)
        finally:
            self._began_ms = None

    def _fail(self, error: EngineError) -> None:
        self._failure = error
        for waiter in (*self._syncing, *self._waiting):
            if not waiter.synced.done():
                refusal = SyncFailed("a sync failed")
                refusal.__cause__ = error
                waiter.synced.set_exception(refusal)
        self._syncing.clear()
        self._waiting.clear()
        self._disarm()
        self._flusher.cancel()
        self._on_fatal(error)

    # --- who waits too long --------------------------------------------------------------------

    def _arm(self) -> None:
        """Look again when the first of those who wait has waited for too long."""
        deadlines = (waiter.deadline_ms for waiter in (*self._syncing, *self._waiting))
        first_ms = min((one for one in deadlines if one is not None), default=None)
        if first_ms is not None:
            left_ms = max(0, first_ms - self._clock.monotonic_ms())
            self._timer = self._call_later(left_ms / 1000, self._expire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        """Answer who has waited for too long."""
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        text = f"stored, and not on the disk after {self._config.flush_timeout_ms} ms"
        for waiters in (self._syncing, self._waiting):
            left = []
            for waiter in waiters:
                if waiter.deadline_ms is None or waiter.deadline_ms > now_ms:
                    left.append(waiter)
                elif not waiter.synced.done():
                    self.timeout_count += 1
                    waiter.synced.set_exception(FlushTimeout(text))
            waiters[:] = left
        self._arm()

    # --- whom nobody waits for -----------------------------------------------------------------

    async def _flush_regularly(self) -> None:
        config = self._config
        while True:
            await self._sleep(config.flush_interval_ms / 1000)
            dirty_bytes = self._log.written_offset - self._log.synced_offset
            is_much = dirty_bytes >= config.flush_least_pages * _PAGE_BYTES
            age_ms = self._clock.monotonic_ms() - self._synced_ms
            if dirty_bytes and (is_much or age_ms >= config.flush_thorough_ms):
                self.request_sync()
