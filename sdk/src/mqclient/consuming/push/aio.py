"""The push consumer for asyncio: the other face of the core and its plans."""

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from mqclient.clock import Clock, SystemClock
from mqclient.consuming.push import plans
from mqclient.consuming.push.core import PushCore
from mqclient.consuming.push.listening import AsyncListener
from mqclient.consuming.push.parts import Parts
from mqclient.consuming.push.settings import checked_settings
from mqclient.consuming.push.workers import ListenerTasks
from mqclient.errors import Closed, MqError
from mqclient.protocol.endpoint import DEFAULT_SERVER
from mqclient.transport.aio import AsyncPool
from mqclient.transport.tasks import TaskDriver
from mqclient.values import BlockedHead, Filter, TopicQueue


class AsyncPushConsumer:
    """Calls a coroutine function with the messages of its group's queues; see PushConsumer.

    A listener that runs for longer than `consume_timeout_s` is cancelled, unless `ordered`, and so
    is one that still runs `stop_wait_s` after `close`.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        group: str,
        listener: AsyncListener,
        topics: str | Iterable[str] = (),
        subscriptions: Mapping[str, Filter] | None = None,
        token: str | None = None,
        clock: Clock | None = None,
        **settings: Any,  # Checked by PushSettings, field by field.
    ) -> None:
        checked = checked_settings(topics, subscriptions, {"group": group, **settings})
        self._parts = Parts(checked, server, token, clock or SystemClock())
        self._listener = listener
        self._core: PushCore | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """Return this member's name."""
        return self._parts.settings.client_id

    @property
    def failure(self) -> MqError | None:
        """Return what keeps this member from its group at the moment, None when nothing does."""
        return self._running.failure

    async def start(self) -> None:
        """Join the group and listen; raise MqError when that is refused or takes too long."""
        if self._core is not None or self._is_closed:
            raise Closed("a consumer is started once")
        parts, settings = self._parts, self._parts.settings
        core = self._core = parts.core()
        self._pool = AsyncPool(parts.endpoint, clock=parts.clock)
        self._driver = TaskDriver(core, self._pool)
        self._workers = ListenerTasks(core, self._listener, after=self._save_if_due)
        core.on_ready, core.on_work = self._workers.offer, self._driver.kick
        try:
            await self._pool.run(plans.join(core, parts.patience(settings.timeout_s)))
            self._driver.kick()
        except BaseException:
            if core.is_member:
                # An interrupt after the joining: the others must not wait for who is gone.
                await self.close()
            else:
                await self._end()
            raise

    def assignment(self) -> tuple[TopicQueue, ...]:
        """Return the queues this member has now."""
        return self._running.assignment()

    def blocked(self) -> list[BlockedHead]:
        """Return the queues whose first unfinished message failed, with how often."""
        return self._running.blocked()

    async def pause(self) -> None:
        """Read nothing more until `resume`; the group's membership stays."""
        self._running.pause(is_paused=True)

    async def resume(self) -> None:
        """Read on."""
        self._running.pause(is_paused=False)

    async def retry_blocked(self, queue: TopicQueue) -> None:
        """Try on at the message an ordered queue stands still at; raise InvalidArgument."""
        self._running.revive(queue, is_skipping=False)

    async def skip_blocked(self, queue: TopicQueue) -> None:
        """Go on behind the message an ordered queue stands still at; raise InvalidArgument."""
        self._running.revive(queue, is_skipping=True)

    async def close(self) -> None:
        """Let running listeners finish, commit what is done, release locks and leave."""
        if self._is_closed:
            return
        self._is_closed = True
        core = self._core
        if core is None:
            return
        settings = self._parts.settings
        idle = asyncio.Event()
        try:
            core.stop(idle.set)
            self._driver.kick()
            try:
                async with asyncio.timeout(settings.stop_wait_s):
                    await idle.wait()
            except TimeoutError:
                await self._workers.cancel()
            is_idle = not core.close()
            # A heartbeat that is still held must not outlive the leaving.
            await self._driver.stop(is_abort=True)
            patience = self._parts.patience(settings.timeout_s)
            await self._pool.run(plans.leave(core, self._parts.calls, patience, is_idle=is_idle))
        finally:
            await self._end()

    async def _end(self) -> None:
        core = self._running
        core.close()
        await self._workers.cancel()
        await self._driver.stop(is_abort=True)
        await self._pool.close()
        kept = self._parts.kept
        if kept is not None:
            await asyncio.to_thread(kept.save, core.positions())
            kept.close()
        if self._parts.tracer is not None:
            await asyncio.to_thread(self._parts.tracer.close)
        self._is_closed = True

    async def _save_if_due(self) -> None:
        kept = self._parts.kept
        if kept is not None and self._parts.is_save_due():
            await asyncio.to_thread(kept.save, self._running.positions())

    @property
    def _running(self) -> PushCore:
        if self._core is None:
            raise Closed("the consumer was not started")
        return self._core
