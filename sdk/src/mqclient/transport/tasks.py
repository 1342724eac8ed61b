"""Drives a core on an asyncio loop, a task for each job. Knows no meaning of the work."""

import asyncio
import logging

from mqclient.errors import MqError, ServerFailed
from mqclient.protocol.work import Job, Work
from mqclient.transport.aio import AsyncPool

logger = logging.getLogger("mqclient")


class TaskDriver:
    """Carries out the jobs of one core. The core itself bounds how many run at once."""

    def __init__(self, work: Work, pool: AsyncPool) -> None:
        self._work = work
        self._pool = pool
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False
        self._is_stopped = False

    def kick(self) -> None:
        """Look for work in the loop's next turn, together with what this turn still brings."""
        if not self._is_scheduled and not self._is_stopped:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    async def stop(self, *, is_abort: bool = False) -> None:
        """Await the jobs under way, or abort them, and take no more."""
        self._is_stopped = True
        if is_abort:
            for task in self._tasks:
                task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _pump(self) -> None:
        self._is_scheduled = False
        if self._is_stopped:
            return
        loop = asyncio.get_running_loop()
        while (job := self._work.take()) is not None:
            task = loop.create_task(self._carry_out(job))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wait_s = self._work.wait_s()
        if wait_s is not None:
            self._timer = loop.call_later(wait_s, self.kick)

    async def _carry_out(self, job: Job) -> None:
        answer, error = None, None
        try:
            answer = await self._pool.call(job.call, job.timeout_s)
        except MqError as raised:
            error = raised
        except Exception as raised:
            # The main loop: whatever happens, the core must learn that the job is over.
            logger.exception("a request failed in an unforeseen way")
            error = ServerFailed(f"unforeseen: {raised!r}")
        except BaseException as raised:
            job.done(None, ServerFailed(f"interrupted: {raised!r}"))
            raise
        job.done(answer, error)
        self.kick()
