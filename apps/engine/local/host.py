"""What all verbs of an engine share: its broker, its loop and threads, who waits, what is durable.

Knows the event loop and its threads: writes happen on the loop, syncs and cold reads in threads.
Knows no verbs.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from apps.engine.broker.core import Broker
from apps.engine.broker.hold import Holds, Key
from apps.engine.broker.journal import Assigned, Commit, Event, LockGranted, LockReleased
from apps.engine.broker.operatorevents import HeadPassed, OffsetReset, QueueSuspended
from apps.engine.codec.layout import LITE_PREFIX, RETRY_PREFIX
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ColdRead
from apps.engine.errors import EngineError, Overloaded, Stopping, SyncFailed, SyncStuck, WriteFailed
from apps.engine.local.looptime import LoopClock
from apps.engine.local.timer import Timer
from apps.engine.log.groupcommit import GroupCommit
from apps.engine.log.quarantine import Unreadable
from apps.engine.types import AckMode, Appended

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")

# Parked readers are looked at this often even if nothing happened, as RocketMQ's hold service does.
_LOOK_AGAIN_MS = 5_000
# Room counts as back after a second, and a bit: what a person with a full disk waits for.
_ROOM_S = 1.0
# Searches by time in as many queues as one request may name. Above it the page cache loses what
# was read as fast as it is read, and waiting on the loop is the way out.
_COLD_READS_MAX = 100_000


def checks_key(producer_group: str) -> Key:
    """Return what a producer waits for that waits for checks; no group can have such a name."""
    return (f"checks of {producer_group}",)


def lite_key(group: str, client_id: str) -> Key:
    """Return what a client waits for that receives from lite topics; no group has such a name."""
    return (f"lite topics of {client_id} in {group}",)


class _Writing:
    """What `Host.writing` returns. No generator: each send would pay eight times as much."""

    __slots__ = ("_fail",)

    def __init__(self, fail: Callable[[EngineError], None]) -> None:
        self._fail = fail

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (WriteFailed, SyncFailed)):
            self._fail(error)


class Host:
    """An open broker on a running event loop."""

    def __init__(
        self,
        broker: Broker,
        *,
        config: EngineConfig,
        on_fatal: Callable[[EngineError], None] | None,
    ) -> None:
        """Start syncing, taking checkpoints and watching the clock."""
        self.broker = broker
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.holds = Holds(parked_max=config.parked_max)
        self.stopped: EngineError | None = None
        self.sync_count = 0
        self.assigned_count = 0
        self.opened_ms = broker.clock.wall_ms()
        self._on_fatal = on_fatal
        self._writing = _Writing(self.fail)
        self._sync_thread = ThreadPoolExecutor(1, thread_name_prefix="engine-sync")
        self._read_threads = ThreadPoolExecutor(
            config.read_threads, thread_name_prefix="engine-read"
        )
        self.commits = GroupCommit(
            broker.log,
            run_in_thread=self._run_sync,
            config=config,
            clock=LoopClock(self.loop, broker.clock),
            sleep=asyncio.sleep,
            call_later=self.loop.call_later,
            on_fatal=self.fail,
        )
        self.commits.on_synced(self._synced)
        broker.recorder.on_event(self._recorded_event)
        broker.recorder.on_stored(self._stored)
        broker.literead.sets.on_ready = lambda *who: self.holds.wake([lite_key(*who)])
        self._warming: asyncio.Future[None] = self.loop.create_future()
        self._warming.set_result(None)
        self._leases = Timer(broker.clock, broker.state.leases.next_due_ms, self._expire_leases)
        self._members = Timer(broker.clock, broker.membership.next_look_ms, self._look_at_members)
        self._locks = Timer(
            broker.clock, broker.locks.expiries.next_look_ms, self._note_expired_locks
        )
        self._checks = Timer(broker.clock, broker.checks.next_due_ms, self._wake_for_checks)
        self.arm_timers()
        self._checkpointing = asyncio.Lock()
        self._background = [
            asyncio.create_task(self._checkpoint_regularly()),
            asyncio.create_task(self._look_regularly()),
            asyncio.create_task(self._watch_room()),
        ]
        if config.flush_pool_bytes:
            _log.warning("pool_gathers_writes", extra={"pool_bytes": config.flush_pool_bytes})
            self.keep_running(self._commit_pool_regularly())

    async def close(self) -> None:
        """Answer who waits, sync, take a checkpoint and mark the store clean."""
        self.stopped = self.stopped or Stopping("the engine is stopping")
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._leases.cancel()
        self._members.cancel()
        self._locks.cancel()
        self._checks.cancel()
        self.holds.release()
        await asyncio.gather(self._warming, return_exceptions=True)
        await self.commits.close()
        await self.loop.run_in_executor(self._sync_thread, self.broker.close)
        self._sync_thread.shutdown()
        self._read_threads.shutdown()

    # --- for verbs -----------------------------------------------------------------------------

    def check_serving(self) -> None:
        """Raise Stopping unless requests are taken."""
        if self.stopped is not None:
            raise Stopping("the engine takes no more requests") from self.stopped

    def check_sending(self) -> None:
        """Raise SyncStuck while the disk does not finish a sync: more would only pile up."""
        self.check_serving()
        if self.commits.is_stuck:
            raise SyncStuck(f"a sync takes {self.commits.sync_ms} ms so far")

    def check_reading(self) -> None:
        """Raise Overloaded while answers that are not sent yet take all the memory they may."""
        held = self.broker.log.held
        if held.is_full:
            raise Overloaded(f"answers that are not sent yet take {held.bytes} bytes")

    def writing(self) -> "_Writing":
        """Stop the engine when a write or a sync fails: what is on the disk is unknown then."""
        return self._writing

    def fail(self, error: EngineError) -> None:
        """Take no more requests, and let the process know that it should end."""
        if self.stopped is None:
            self.stopped = error
            _log.critical("the engine stops: %s", error)
            self.holds.release()
            if self._on_fatal is not None:
                self._on_fatal(error)

    async def recorded(self, answer: _Answer) -> _Answer:
        """Return the answer when what it promises is as durable as the store's mode says."""
        self.arm_timers()
        if self.config.ack is AckMode.SYNC:
            await self.commits.durable(self.broker.recorder.log_end)
        return answer

    async def in_thread(self, work: Callable[[], _Answer]) -> _Answer:
        """Return what a thread answers that does what waits for the disk."""
        return await self.loop.run_in_executor(self._read_threads, work)

    async def read_ended(self) -> None:
        """Return when every read of the log that is under way now has ended."""
        ended = asyncio.Event()
        self.broker.log.front.pins.when_gone(ended.set)
        await ended.wait()

    async def warmly(self, read: Callable[[bool], _Answer]) -> _Answer:
        """Read without waiting for the disk; where that fails, let a thread wait first."""
        guarded = self.broker.damage.guarded
        with self.broker.log.front.pins.held():
            try:
                return guarded(partial(read, False))
            except ColdRead as cold:
                await self._warm(cold)
            # What the thread read is in the page cache now; waiting once more bounds the tries.
            return guarded(partial(read, True))

    async def patiently(self, read: Callable[[bool], _Answer]) -> _Answer:
        """Read as `warmly`, with any number of reads of the disk; each is waited for in a thread.

        `read` must remember what it has found, or find it in the page cache when it is repeated.
        """
        guarded = self.broker.damage.guarded
        with self.broker.log.front.pins.held():
            for _ in range(_COLD_READS_MAX):
                try:
                    return guarded(partial(read, False))
                except ColdRead as cold:
                    await self._warm(cold)
            return guarded(partial(read, True))

    async def _warm(self, cold: ColdRead) -> None:
        # What is damaged the read says again itself, where it is dealt with.
        with suppress(Unreadable):
            await self.loop.run_in_executor(self._read_threads, cold.warm)

    def warm_ahead(self) -> None:
        """Let a thread read ahead of the log's writes, unless one does."""
        log = self.broker.log
        if log.warmth.is_wanted(log.written_offset) and self._warming.done():
            self._warming = self.loop.run_in_executor(
                self._read_threads, log.warmth.ahead, log.written_offset
            )
            self._warming.add_done_callback(_note_warming)

    async def park(
        self,
        keys: Collection[Key],
        deadline: float,
        *,
        is_unsynced: bool = False,
        hashes: Set[int] | None = None,
        is_due: Callable[[], bool] | None = None,
    ) -> bool:
        """Wait until something happens to one of the keys; see Holds.

        Returns False when the deadline, of the loop's clock, is over.
        """
        left_ms = int((deadline - self.loop.time()) * 1000)
        if left_ms <= 0:
            return False
        if is_unsynced:
            # Readers see only what is synced, so one who waits is a reason to sync.
            self.commits.request_sync()
        await self.holds.wait(keys, wait_ms=left_ms, hashes=hashes, is_due=is_due)
        return True

    def keep_running(self, work: Coroutine[None, None, None]) -> None:
        """Run a coroutine until the engine is closed."""
        self._background.append(asyncio.create_task(work))

    def arm_timers(self) -> None:
        """Be called back when the next lease, member or lock falls due."""
        if self.stopped is None:
            self._leases.arm()
            self._members.arm()
            self._locks.arm()

    def arm_checks(self) -> None:
        """Be called back when the next check of a transaction is due that somebody waits for."""
        if self.stopped is None:
            self._checks.arm()

    # --- what wakes ----------------------------------------------------------------------------

    def _synced(self, synced_offset: int) -> None:
        del synced_offset  # The broker reads it from the log.
        self.sync_count += 1
        grown = self.broker.show_synced()

        def news(key: Key) -> Set[int] | None:
            match key:
                case (str(topic), int(number)) if not topic.startswith(RETRY_PREFIX):
                    return self.broker.tags_since(topic, number, grown[topic, number])
            return None

        self.holds.wake(grown, news)

    def _recorded_event(self, event: Event) -> None:
        match event:
            case Assigned():
                self.assigned_count += 1
                self.holds.wake([(event.group,)])
            case (
                LockGranted()
                | LockReleased()
                | Commit()
                | HeadPassed()
                | OffsetReset()
                | QueueSuspended()
            ):
                self.holds.wake([(event.group, event.topic, event.queue)])

    def _stored(self, appended: Sequence[Appended]) -> None:
        self.warm_ahead()
        self.note_written(
            [(item.topic, item.queue) for item in appended], self.broker.log.written_offset
        )

    def note_written(self, places: Iterable[tuple[str, int]], log_end: int) -> None:
        """Have what was written synced soon where somebody waits for it."""
        is_awaited = False
        for place in places:
            if place[0].startswith(LITE_PREFIX):
                for client in self.broker.literead.sets.stored(place[0], log_end):
                    key = lite_key(client.group, client.client_id)
                    is_awaited = is_awaited or self.holds.is_awaited(key)
            is_awaited = is_awaited or self.holds.is_awaited(place)
        if is_awaited:
            # Readers see only what is synced, so one who waits is a reason to sync.
            self.commits.request_sync()

    def _expire_leases(self) -> None:
        self.holds.wake(self.broker.expire())

    def _wake_for_checks(self) -> None:
        self.holds.wake(map(checks_key, self.broker.checks.producers.waiting_groups))

    def _look_at_members(self) -> None:
        try:
            with self.writing():
                self.broker.membership.look()
        except EngineError as error:
            # Members are looked at again with the next heartbeat of their group, and by the beat.
            _log.warning("queues were not shared out: %s", error)

    def _note_expired_locks(self) -> None:
        try:
            with self.writing():
                self.broker.locks.expiries.note()
        except EngineError as error:
            # Who takes such a lock is told of in any case, as one who took it over.
            _log.warning("lock_expiries_not_written", extra={"error": str(error)})
            return
        # History tells only what is synced; without another write that might take long.
        self.commits.request_sync()

    async def _look_regularly(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AGAIN_MS / 1000)
            self.holds.look()

    # --- durability ----------------------------------------------------------------------------

    async def _run_sync(self, work: Callable[[], None]) -> None:
        await self.loop.run_in_executor(self._sync_thread, work)

    async def _checkpoint_regularly(self) -> None:
        """Bound what a restart has to read again, by time and by bytes."""
        last_ms = self.broker.clock.monotonic_ms()
        last_offset = -1
        while True:
            await asyncio.sleep(min(1.0, self.config.checkpoint_interval_ms / 1000))
            now_ms = self.broker.clock.monotonic_ms()
            written = self.broker.log.written_offset
            is_due = now_ms - last_ms >= self.config.checkpoint_interval_ms
            behind = written - self.broker.queues.checkpoint_offset
            is_far = behind >= self.config.dispatch_behind_bytes_max
            if written == last_offset or not (is_due or is_far):
                continue
            try:
                await self.checkpoint()
            except EngineError as error:
                # Nothing depends on it but the length of the next recovery.
                _log.warning("checkpoint failed: %s", error)
            last_ms, last_offset = now_ms, written

    async def _watch_room(self) -> None:
        """Notice when the disk is full, and when it is not any more, also while nobody sends."""
        log = self.broker.log
        while True:
            await asyncio.sleep(_ROOM_S)
            log.room.look()
            if not log.room.is_denied:
                continue
            try:
                with self.writing():
                    await self._run_sync(log.create_ahead)
            except EngineError as error:
                _log.warning("segment_not_made", extra={"error": str(error)})

    async def _commit_pool_regularly(self) -> None:
        while self.stopped is None:
            await asyncio.sleep(self.config.flush_commit_ms / 1000)
            with suppress(WriteFailed), self.writing():  # `writing` has stopped the engine.
                self.broker.log.commit_pool()

    async def outside_checkpoints(self, write: Callable[[], None]) -> None:
        """Run `write` in a thread while no checkpoint is written; raises what it raises."""
        async with self._checkpointing:
            with self.writing():
                await self._run_sync(write)

    async def checkpoint(self) -> None:
        """Take a checkpoint. Raises StoreFull, WriteFailed or SyncFailed."""
        async with self._checkpointing:
            with self.writing():
                log_offset, write = self.broker.begin_checkpoint()
                # What was written out counts as begun: giving up here would forget to sync it.
                await self.commits.durable(log_offset, is_patient=True)
                await self._run_sync(write)
                await self._run_sync(self.broker.log.checkpoint)


def _note_warming(warming: "asyncio.Future[None]") -> None:
    if not warming.cancelled() and (error := warming.exception()) is not None:
        # The writes will meet whatever it was; only their speed depended on it.
        _log.warning("warming the log failed: %s", error)
