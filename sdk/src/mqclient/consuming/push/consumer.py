"""The push consumer for threads: a face of the core and its plans."""

import inspect
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from mqclient.clock import Clock, SystemClock
from mqclient.consuming.push import plans
from mqclient.consuming.push.core import PushCore
from mqclient.consuming.push.listening import Listener
from mqclient.consuming.push.parts import Parts
from mqclient.consuming.push.settings import checked_settings
from mqclient.consuming.push.workers import ListenerThreads
from mqclient.errors import Closed, InvalidArgument, MqError
from mqclient.protocol.endpoint import DEFAULT_SERVER
from mqclient.transport.blocking import Pool
from mqclient.transport.threads import ThreadDriver
from mqclient.values import BlockedHead, Filter, TopicQueue

# Besides pulls: each errand, a heartbeat that overtakes another, and one thread for the timers.
_OTHER_REQUESTS_MAX = 8


class PushConsumer:
    """Calls a listener with the messages of its group's queues, in threads of its own.

    `topics` are read whole, `subscriptions` are filters by topic: tags, or `Sql("...")`. Other
    settings are those of PushSettings, by name. The listener says `Consumed.SUCCESS`, or
    `Consumed.RETRY_LATER`, which an exception and anything else mean as well.

    Failed messages are sent back: the broker has them come again to any member of the group, after
    a delay that grows, and after the group's last try they are its dead letters. Their queue goes
    on. Where the broker does not take them they come again here. An `ordered` consumer tries again
    in place, and nothing passes the message; after a finite number of attempts, the group's or its
    own, it becomes a dead letter and the queue goes on. A broadcasting one drops what failed.

    Delivery is at least once. `executor` runs the listeners instead of own threads.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        group: str,
        listener: Listener,
        topics: str | Iterable[str] = (),
        subscriptions: Mapping[str, Filter] | None = None,
        executor: Executor | None = None,
        token: str | None = None,
        clock: Clock | None = None,
        **settings: Any,  # Checked by PushSettings, field by field.
    ) -> None:
        if inspect.iscoroutinefunction(listener):
            raise InvalidArgument("a coroutine function listens to an AsyncPushConsumer")
        checked = checked_settings(topics, subscriptions, {"group": group, **settings})
        self._parts = Parts(checked, server, token, clock or SystemClock())
        self._listener = listener
        self._executor = executor
        self._own_executor: Executor | None = None
        self._core: PushCore | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def client_id(self) -> str:
        """Return this member's name."""
        return self._parts.settings.client_id

    @property
    def failure(self) -> MqError | None:
        """Return what keeps this member from its group at the moment, None when nothing does."""
        return self._running.failure

    def start(self) -> None:
        """Join the group and listen; raise MqError when that is refused or takes too long."""
        if self._core is not None or self._is_closed:
            raise Closed("a consumer is started once")
        parts, settings = self._parts, self._parts.settings
        core = self._core = parts.core()
        # One pool for what goes on, which is cut off at the end, and one for coming and going.
        self._pool = Pool(parts.endpoint, clock=parts.clock, idle_max=settings.pulls_max)
        self._gate = Pool(parts.endpoint, clock=parts.clock)
        self._driver = ThreadDriver(
            core,
            self._pool,
            threads_max=settings.pulls_max + _OTHER_REQUESTS_MAX,
            clock=parts.clock,
            name="mqclient-push",
        )
        if self._executor is None:
            self._own_executor = ThreadPoolExecutor(settings.listeners_max, "mqclient-listener")
        executor = self._executor or self._own_executor
        assert executor is not None
        workers = ListenerThreads(
            core, self._listener, executor=executor, clock=parts.clock, after=self._save_if_due
        )
        core.on_ready, core.on_work = workers.offer, self._driver.kick
        try:
            self._gate.run(plans.join(core, parts.patience(settings.timeout_s)))
            self._driver.kick()
        except BaseException:
            if core.is_member:
                # An interrupt after the joining: the others must not wait for who is gone.
                self.close()
            else:
                self._end()
            raise

    def assignment(self) -> tuple[TopicQueue, ...]:
        """Return the queues this member has now."""
        return self._running.assignment()

    def blocked(self) -> list[BlockedHead]:
        """Return the queues whose first unfinished message failed, with how often."""
        return self._running.blocked()

    def pause(self) -> None:
        """Read nothing more until `resume`; the group's membership stays."""
        self._running.pause(is_paused=True)

    def resume(self) -> None:
        """Read on."""
        self._running.pause(is_paused=False)

    def retry_blocked(self, queue: TopicQueue) -> None:
        """Try on at the message an ordered queue stands still at; raise InvalidArgument."""
        self._running.revive(queue, is_skipping=False)

    def skip_blocked(self, queue: TopicQueue) -> None:
        """Go on behind the message an ordered queue stands still at; raise InvalidArgument."""
        self._running.revive(queue, is_skipping=True)

    def close(self) -> None:
        """Let running listeners finish, commit what is done, release locks and leave."""
        if self._is_closed:
            return
        self._is_closed = True
        core = self._core
        if core is None:
            return
        settings = self._parts.settings
        idle = threading.Event()
        try:
            core.stop(idle.set)
            self._driver.kick()
            idle.wait(settings.stop_wait_s)
            is_idle = not core.close()
            # A heartbeat that is still held must not outlive the leaving.
            self._pool.abort()
            patience = self._parts.patience(settings.timeout_s)
            self._gate.run(plans.leave(core, self._parts.calls, patience, is_idle=is_idle))
        finally:
            self._end()

    def _end(self) -> None:
        core = self._running
        core.close()
        self._pool.abort()
        self._gate.close()
        self._driver.stop()
        if self._own_executor is not None:
            self._own_executor.shutdown(wait=False, cancel_futures=True)
        if self._parts.kept is not None:
            self._parts.kept.save(core.positions())
            self._parts.kept.close()
        if self._parts.tracer is not None:
            self._parts.tracer.close()
        self._is_closed = True

    def _save_if_due(self) -> None:
        if self._parts.kept is not None and self._parts.is_save_due():
            self._parts.kept.save(self._running.positions())

    @property
    def _running(self) -> PushCore:
        if self._core is None:
            raise Closed("the consumer was not started")
        return self._core
