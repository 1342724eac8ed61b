"""Many waiters, one sync. Knows an event loop and a log; not what was written, nor for whom.

Requests that come while a sync is under way wait in a list of their own and share the next one:
the two lists are swapped when a sync begins.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from apps.engine.errors import EngineError, Stopping, SyncFailed
from apps.engine.log.commitlog import CommitLog

_Waiter = tuple[int, "asyncio.Future[None]"]


class GroupCommit:
    """Sync a log on demand, and at the latest every flush interval. Needs a running loop."""

    def __init__(
        self,
        log: CommitLog,
        *,
        run_in_thread: Callable[[Callable[[], None]], Awaitable[None]],
        flush_interval_ms: int,
        sleep: Callable[[float], Awaitable[None]],
        on_fatal: Callable[[EngineError], None],
    ) -> None:
        """Start flushing. `on_fatal` is called once, when a sync failed: nothing works then."""
        self._log = log
        self._run_in_thread = run_in_thread
        self._flush_interval_s = flush_interval_ms / 1000
        self._sleep = sleep
        self._on_fatal = on_fatal
        self._on_synced: list[Callable[[int], None]] = []
        self._waiting: list[_Waiter] = []
        self._syncing: list[_Waiter] = []
        self._is_asked = False
        self._is_closing = False
        self._failure: EngineError | None = None
        self._worker: asyncio.Task[None] | None = None
        self._flusher = asyncio.create_task(self._flush_regularly())

    def on_synced(self, callback: Callable[[int], None]) -> None:
        """Call back with the synced offset after every sync, before its waiters go on."""
        self._on_synced.append(callback)

    async def durable(self, log_offset: int) -> None:
        """Return when the log is on the disk up to `log_offset`, which must be written.

        Raises SyncFailed when that cannot be said, Stopping after `close`.
        """
        if log_offset <= self._log.synced_offset:
            return
        self._check()
        assert log_offset <= self._log.written_offset
        synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((log_offset, synced))
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
                self._waiting, self._syncing = self._syncing, self._waiting
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

    async def _sync_once(self) -> None:
        ticket = self._log.begin_sync()
        if ticket is not None:
            with suppress(SyncFailed):  # `finish_sync` raises it again.
                await self._run_in_thread(ticket.run)
            self._log.finish_sync(ticket)
            for callback in self._on_synced:
                callback(ticket.target)
        for log_offset, synced in self._syncing:
            assert log_offset <= self._log.synced_offset
            if not synced.done():
                synced.set_result(None)
        self._syncing.clear()
        if self._log.wants_segment:
            await self._run_in_thread(self._log.create_ahead)

    def _fail(self, error: EngineError) -> None:
        self._failure = error
        for _, synced in (*self._syncing, *self._waiting):
            if not synced.done():
                refusal = SyncFailed("a sync failed")
                refusal.__cause__ = error
                synced.set_exception(refusal)
        self._syncing.clear()
        self._waiting.clear()
        self._flusher.cancel()
        self._on_fatal(error)

    async def _flush_regularly(self) -> None:
        while True:
            await self._sleep(self._flush_interval_s)
            if self._log.written_offset > self._log.synced_offset:
                self.request_sync()
