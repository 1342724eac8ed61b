"""The engine in one process: the broker of `apps.engine.broker.core`, and the waiting around it.

Knows the event loop and its threads: writes happen on the loop, syncs and cold reads in threads.
Decides nothing about messages.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, TypeVar

from apps.engine.broker.core import Broker, open_broker
from apps.engine.broker.hold import Holds
from apps.engine.broker.produce import CheckedBatch
from apps.engine.broker.sharing import SharedFrames, Written
from apps.engine.clock import Clock, SystemClock
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ColdRead
from apps.engine.errors import EngineError, Stopping, SyncFailed, WriteFailed
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk, HeldLock
from apps.engine.files.posix import PosixDisk
from apps.engine.log.groupcommit import GroupCommit
from apps.engine.types import (
    AckMode,
    Appended,
    CatalogSnapshot,
    ClientSeen,
    EngineStatus,
    GroupProgress,
    OffsetCommit,
    PullRequest,
    PullResult,
    PullStatus,
    QueueRange,
    ReceiveRequest,
    ReceiveResult,
    RecordBatch,
    SettleResult,
)

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")

# A parked reader looks again this often even if nobody wakes it, as RocketMQ's hold service does.
_LOOK_AGAIN_MS = 5_000


class LocalEngine:
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
        self._broker = broker
        self._lock = lock
        self._config = config
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._sync_thread = ThreadPoolExecutor(1, thread_name_prefix="engine-sync")
        self._read_threads = ThreadPoolExecutor(
            config.read_threads, thread_name_prefix="engine-read"
        )
        self._commits = GroupCommit(
            broker.log,
            run_in_thread=self._run_sync,
            flush_interval_ms=config.flush_interval_ms,
            sleep=asyncio.sleep,
            on_fatal=self._fail,
        )
        self._commits.on_synced(self._synced)
        self._holds = Holds(parked_max=config.parked_max)
        # The last batch of a frame may overshoot; the frame must fit a segment all the same.
        room = (config.segment_bytes - config.batch_bytes_max) // 2
        self._frames = SharedFrames(self._write, overshoot_room_bytes=room)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._syncs = 0
        self._warming: asyncio.Future[None] = self._loop.create_future()
        self._warming.set_result(None)
        self._stopped: EngineError | None = None
        self._arm_timer()
        self._checkpoints = asyncio.create_task(self._checkpoint_regularly())

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
            broker = open_broker(
                disk, config=config, clock=clock, failpoints=failpoints or Failpoints()
            )
        except BaseException:
            lock.release()
            raise
        return cls(broker, lock, config=config, on_fatal=on_fatal)

    async def close(self) -> None:
        """Answer who waits, sync, take a checkpoint, mark the store clean and give it back."""
        if self._stopped is not None:
            return
        self._frames.drain()
        self._stopped = Stopping("the engine is stopping")
        self._checkpoints.cancel()
        await asyncio.gather(self._checkpoints, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        self._holds.wake_all()
        await asyncio.gather(self._warming, return_exceptions=True)
        await self._commits.close()
        await self._loop.run_in_executor(self._sync_thread, self._broker.close)
        self._sync_thread.shutdown()
        self._read_threads.shutdown()
        self._lock.release()

    # --- what is known -------------------------------------------------------------------------

    @property
    def catalog(self) -> CatalogSnapshot:
        """Return the snapshot the engine obeys."""
        return self._broker.catalog.snapshot

    def publish_catalog(self, snapshot: CatalogSnapshot) -> None:
        """Obey `snapshot` from here on and keep it on disk; ignore one that is not newer."""
        self._check_serving()
        with self._ending_on_failure():
            self._broker.publish_catalog(snapshot)

    def queue_ranges(self, topic: str) -> list[QueueRange]:
        """Return what each queue of the topic holds. Raises UnknownTopic."""
        return self._broker.queue_ranges(topic)

    def topic_ranges(self, topics: Collection[str] | None = None) -> dict[str, list[QueueRange]]:
        """Return what the queues of several topics hold; see EngineControl."""
        return self._broker.topic_ranges(topics)

    def group_progress(self, group: str | None = None) -> list[GroupProgress]:
        """Return progress per group and queue that has any; of one group, or of all."""
        return self._broker.offsets.progress(group)

    def clients(self, group: str | None = None) -> list[ClientSeen]:
        """Return the clients of one group or all; see EngineControl."""
        return self._broker.sessions.clients(group)

    def forget_silent_clients(self, silent_ms: int) -> list[ClientSeen]:
        """Forget who was silent for longer than `silent_ms`; see EngineControl."""
        return self._broker.sessions.forget_silent(silent_ms)

    def status(self) -> EngineStatus:
        """Return one reading of the counters."""
        broker, log = self._broker, self._broker.log
        return EngineStatus(
            store_id=log.store_id,
            epoch=log.epoch,
            log_start=log.log_start,
            written_offset=log.written_offset,
            synced_offset=log.synced_offset,
            appended_messages=broker.appender.message_count,
            appended_bytes=broker.appender.byte_count,
            delivered_messages=broker.pop.message_count,
            settled_messages=broker.settler.message_count,
            parked=self._holds.parked,
            leases=len(broker.state.leases),
            syncs=self._syncs,
            free_bytes=broker.free_bytes(),
            recovery=log.recovery,
        )

    # --- messages in ---------------------------------------------------------------------------

    async def append(self, batches: Sequence[RecordBatch], *, ack: AckMode) -> list[Appended]:
        """Store batches in one atomic frame; see EngineAPI."""
        self._check_serving()
        checked = self._broker.appender.check(batches)
        appended, frame_end = await self._frames.append(checked)
        if ack is AckMode.SYNC:
            await self._commits.durable(frame_end)
        return appended

    def _write(self, checked: list[CheckedBatch]) -> Written:
        with self._ending_on_failure():
            appended, frame_end = self._broker.appender.write(checked)
        if self._broker.log.wants_warmth and self._warming.done():
            self._warming = self._loop.run_in_executor(
                self._read_threads, self._broker.log.warm_ahead
            )
            self._warming.add_done_callback(_note_warming)
        if any(self._holds.is_awaited((batch.topic, batch.queue)) for batch in checked):
            # Readers see only what is synced, so one who waits is a reason to sync.
            self._commits.request_sync()
        return appended, frame_end

    # --- messages out --------------------------------------------------------------------------

    async def pull(self, request: PullRequest) -> PullResult:
        """Read a queue from an offset; see EngineAPI."""
        self._check_serving()
        queue = self._broker.check_pull(request)
        key = (request.topic, request.queue)
        deadline = self._loop.time() + request.wait_ms / 1000
        while True:
            result = await self._warmly(lambda wait: self._broker.pull(request, wait=wait))
            if result.status is not PullStatus.NO_NEW_MSG or self._stopped is not None:
                return result
            if not await self._park([key], deadline, is_unsynced=queue.end > queue.visible):
                return result

    async def receive(self, request: ReceiveRequest) -> ReceiveResult:
        """Hand out messages and hide them; see EngineAPI."""
        self._check_serving()
        deadline = self._loop.time() + request.wait_ms / 1000
        while True:
            with self._ending_on_failure():
                result = await self._warmly(lambda wait: self._broker.receive(request, wait=wait))
            if result.leases or self._stopped is not None:
                self._arm_timer()
                return result
            keys = [
                (topic, queue)
                for topic in request.topics
                for queue in range(self._broker.catalog.topic(topic).queue_count)
            ]
            queues = [self._broker.queues.queue(*key) for key in keys]
            is_unsynced = any(queue.end > queue.visible for queue in queues)
            with self._broker.sessions.waiting(request):
                if not await self._park(keys, deadline, is_unsynced=is_unsynced):
                    return result

    async def _warmly(self, read: Callable[[bool], _Answer]) -> _Answer:
        """Read without waiting for the disk; where that fails, let a thread wait first."""
        try:
            return read(False)
        except ColdRead as cold:
            await self._loop.run_in_executor(self._read_threads, cold.warm)
        # What the thread read is in the page cache now; waiting once more bounds the tries.
        return read(True)

    async def _park(
        self, keys: Collection[tuple[str, int]], deadline: float, *, is_unsynced: bool
    ) -> bool:
        """Wait for something new in the queues; return False when the time is over."""
        left_ms = int((deadline - self._loop.time()) * 1000)
        if left_ms <= 0:
            return False
        if is_unsynced:
            self._commits.request_sync()
        await self._holds.wait(keys, wait_ms=min(left_ms, _LOOK_AGAIN_MS))
        return True

    # --- consumer state ------------------------------------------------------------------------

    async def ack(self, group: str, handles: Sequence[str]) -> list[SettleResult]:
        """Settle handed-out messages for good; see EngineAPI."""
        self._check_serving()
        with self._ending_on_failure():
            results = self._broker.settler.ack(group, handles)
        return await self._recorded(results)

    async def nack(
        self, group: str, handles: Sequence[str], *, delay_ms: int = 0, reason: str = ""
    ) -> list[SettleResult]:
        """Give messages back; see EngineAPI."""
        self._check_serving()
        settler = self._broker.settler
        with self._ending_on_failure():
            results = settler.nack(group, handles, delay_ms=delay_ms, reason=reason)
        return await self._recorded(results)

    async def extend(
        self, group: str, handles: Sequence[str], *, invisible_ms: int
    ) -> list[SettleResult]:
        """Hide messages for longer; see EngineAPI."""
        self._check_serving()
        with self._ending_on_failure():
            results = self._broker.settler.extend(group, handles, invisible_ms=invisible_ms)
        return await self._recorded(results)

    async def commit_offsets(self, group: str, commits: Sequence[OffsetCommit]) -> None:
        """Set the group's progress; see EngineAPI."""
        self._check_serving()
        with self._ending_on_failure():
            self._broker.offsets.commit(group, commits)
        await self._recorded(None)

    async def _recorded(self, answer: _Answer) -> _Answer:
        """Return the answer when what it promises is as durable as the store's mode says."""
        self._arm_timer()
        if self._config.ack is AckMode.SYNC:
            await self._commits.durable(self._broker.recorder.log_end)
        return answer

    def _arm_timer(self) -> None:
        """Be called back when the next lease falls due."""
        due_ms = self._broker.state.leases.next_due_ms()
        if due_ms is None or (self._timer is not None and self._timer_due_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = due_ms
        left_ms = max(0, due_ms - self._broker.clock.monotonic_ms())
        self._timer = self._loop.call_later(left_ms / 1000, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._holds.wake(self._broker.expire())
        self._arm_timer()

    # --- durability ----------------------------------------------------------------------------

    async def _run_sync(self, work: Callable[[], None]) -> None:
        await self._loop.run_in_executor(self._sync_thread, work)

    def _synced(self, synced_offset: int) -> None:
        del synced_offset  # The broker reads it from the log.
        self._syncs += 1
        self._holds.wake(self._broker.show_synced())

    async def _checkpoint_regularly(self) -> None:
        """Bound what a restart has to read again, by time and by bytes."""
        last_ms = self._broker.clock.monotonic_ms()
        last_offset = -1
        while True:
            await asyncio.sleep(min(1.0, self._config.checkpoint_interval_ms / 1000))
            now_ms = self._broker.clock.monotonic_ms()
            written = self._broker.log.written_offset
            is_due = now_ms - last_ms >= self._config.checkpoint_interval_ms
            behind = written - self._broker.queues.checkpoint_offset
            is_far = behind >= self._config.dispatch_behind_bytes_max
            if written == last_offset or not (is_due or is_far):
                continue
            try:
                with self._ending_on_failure():
                    await self._checkpoint()
            except EngineError as error:
                # Nothing depends on it but the length of the next recovery.
                _log.warning("checkpoint failed: %s", error)
            last_ms, last_offset = now_ms, written

    async def _checkpoint(self) -> None:
        log_offset, write = self._broker.begin_checkpoint()
        await self._commits.durable(log_offset)
        await self._run_sync(write)
        await self._run_sync(self._broker.log.checkpoint)

    @contextmanager
    def _ending_on_failure(self) -> Iterator[None]:
        """Stop the engine when a write or a sync fails: what is on the disk is unknown then."""
        try:
            yield
        except (WriteFailed, SyncFailed) as error:
            self._fail(error)
            raise

    def _fail(self, error: EngineError) -> None:
        if self._stopped is None:
            self._stopped = error
            _log.critical("the engine stops: %s", error)
            self._holds.wake_all()
            if self._on_fatal is not None:
                self._on_fatal(error)

    def _check_serving(self) -> None:
        if self._stopped is not None:
            raise Stopping("the engine takes no more requests") from self._stopped


def _note_warming(warming: "asyncio.Future[None]") -> None:
    if not warming.cancelled() and (error := warming.exception()) is not None:
        # The writes will meet whatever it was; only their speed depended on it.
        _log.warning("warming the log failed: %s", error)


def _owner(clock: Clock) -> dict[str, object]:
    started = datetime.fromtimestamp(clock.wall_ms() / 1000, tz=UTC)
    return {
        "pid": os.getpid(),
        "started_at": started.isoformat(timespec="seconds"),
        "command": " ".join(sys.argv),
        "host": os.uname().nodename,
    }
