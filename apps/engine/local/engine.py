"""The engine of a process that owns a store. Knows how it is opened and closed.

Its verbs come from several classes, each a thought of its own over one host.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from apps.engine import processes
from apps.engine.broker.core import Broker, open_broker
from apps.engine.clock import Clock, SystemClock
from apps.engine.config import EngineConfig
from apps.engine.errors import EngineError
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk, HeldLock
from apps.engine.files.posix import PosixDisk
from apps.engine.local.burials import bury_expired
from apps.engine.local.compactionloop import Compactor
from apps.engine.local.control import ControlVerbs
from apps.engine.local.delayloop import deliver_delayed, move_delayed
from apps.engine.local.delays import DelayVerbs
from apps.engine.local.failures import FailureVerbs
from apps.engine.local.groups import GroupVerbs
from apps.engine.local.host import Host
from apps.engine.local.lites import LiteVerbs, end_lites
from apps.engine.local.mender import mend
from apps.engine.local.messages import MessageVerbs
from apps.engine.local.operators import OperatorVerbs
from apps.engine.local.retention import RetentionVerbs
from apps.engine.local.retentionloop import Cleaner
from apps.engine.local.transactions import TransactionVerbs


class LocalEngine(
    ControlVerbs,
    DelayVerbs,
    FailureVerbs,
    GroupVerbs,
    LiteVerbs,
    OperatorVerbs,
    RetentionVerbs,
    TransactionVerbs,
    MessageVerbs,
):
    """EngineAPI on a store this process owns."""

    def __init__(
        self,
        broker: Broker,
        lock: HeldLock,
        *,
        config: EngineConfig,
        on_fatal: Callable[[EngineError], None] | None,
    ) -> None:
        """Start serving; use `open`."""
        super().__init__(Host(broker, config=config, on_fatal=on_fatal))
        self._lock = lock
        self._delivering = asyncio.Lock()
        self._host.keep_running(bury_expired(self._host))
        self._host.keep_running(deliver_delayed(self._host))
        self._host.keep_running(move_delayed(self._host))
        self._host.keep_running(end_lites(self._host))
        self._compactor = Compactor(self._host)
        self._host.keep_running(self._compactor.run())
        self._host.keep_running(mend(self._host, broker.queues))
        self._host.keep_running(mend(self._host, broker.index))
        self._cleaner = Cleaner(self._host, self._compactor)
        self._host.keep_running(self._cleaner.run())

    @classmethod
    async def open(
        cls,
        store_path: Path,
        config: EngineConfig,
        *,
        clock: Clock | None = None,
        failpoints: Failpoints | None = None,
        disk: Disk | None = None,
        on_fatal: Callable[[EngineError], None] | None = None,
    ) -> Self:
        """Lock the store, recover it and serve it from the running event loop.

        Raises StoreLocked naming the owner, StoreDamaged, ForeignSegment or UnknownFormat.
        `on_fatal` is called once when a write or a sync fails: the process should then end.
        """
        clock = clock or SystemClock()
        disk = disk or PosixDisk(store_path)
        lock = disk.lock("lock", owner=_owner(clock))
        try:
            # Also where opening fails: what the thread does is over before the lock is given back.
            with ThreadPoolExecutor(1, thread_name_prefix="engine-open") as thread:
                broker = open_broker(
                    disk,
                    config=config,
                    clock=clock,
                    failpoints=failpoints or Failpoints(),
                    beside=lambda work: thread.submit(work).result,
                )
        except BaseException:
            lock.release()
            raise
        return cls(broker, lock, config=config, on_fatal=on_fatal)

    async def close(self) -> None:
        """Answer who waits, sync, take a checkpoint, mark the store clean and give it back."""
        if self._host.stopped is not None:
            return
        self._frames.drain()
        await self._compactor.close()
        await self._cleaner.close()
        await self._host.close()
        self._lock.release()


def _owner(clock: Clock) -> dict[str, object]:
    started = datetime.fromtimestamp(clock.wall_ms() / 1000, tz=UTC)
    return {
        "pid": os.getpid(),
        "identity": processes.identity(os.getpid()),
        "started_at": started.isoformat(timespec="seconds"),
        "command": " ".join(sys.argv),
        "host": os.uname().nodename,
    }
