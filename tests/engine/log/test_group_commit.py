"""Who shares a sync, who is told what, and what a failed one does. No threads, no real time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from apps.engine.config import EngineConfig
from apps.engine.errors import EngineError, FlushTimeout, Stopping, SyncFailed
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.groupcommit import GroupCommit
from apps.engine.testing.contracts.log import SMALL, run_of
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk


class Alarm:
    """A call that is due when the test says so."""

    def __init__(self, seconds: float, callback: Callable[[], None]) -> None:
        self.seconds = seconds
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Bench:
    """A log, its group commit, and the hands on what it waits for."""

    def __init__(self, config: EngineConfig = SMALL) -> None:
        self.disk = SimulatedDisk()
        self.clock = ManualClock()
        self.log = CommitLog.open(self.disk, config=config, clock=self.clock)
        self.syncs_at_start = self.disk.sync_count
        self.under_way = 0
        self.may_run = asyncio.Event()
        self.may_run.set()
        self.naps: list[tuple[float, asyncio.Future[None]]] = []
        self.fatal: list[EngineError] = []
        self.alarms: list[Alarm] = []
        self.commits = GroupCommit(
            self.log,
            run_in_thread=self.run,
            config=config,
            clock=self.clock,
            sleep=self.sleep,
            call_later=self.call_later,
            on_fatal=self.fatal.append,
        )

    async def run(self, work: Callable[[], None]) -> None:
        self.under_way += 1
        await self.may_run.wait()
        await asyncio.sleep(0)
        self.under_way -= 1
        work()

    async def sleep(self, seconds: float) -> None:
        nap: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.naps.append((seconds, nap))
        await nap

    def call_later(self, seconds: float, callback: Callable[[], None]) -> "Alarm":
        self.alarms.append(Alarm(seconds, callback))
        return self.alarms[-1]

    @property
    def syncs(self) -> int:
        return self.disk.sync_count - self.syncs_at_start

    def send(self) -> int:
        return self.log.append([run_of([b"a"])]).end

    def wait_for(self, log_offset: int) -> "asyncio.Task[None]":
        return asyncio.create_task(self.commits.durable(log_offset))


async def turns(count: int = 5) -> None:
    """Let everything that can go on go on."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    bench.may_run.set()
    if not bench.fatal:
        await bench.commits.close()


async def test_what_is_synced_is_durable_at_once(bench: Bench) -> None:
    end = bench.send()
    bench.log.sync()

    await bench.commits.durable(end)

    assert bench.syncs == 1


async def test_all_who_wait_in_one_turn_share_one_sync(bench: Bench) -> None:
    waiters = [bench.wait_for(bench.send()) for _ in range(50)]

    await asyncio.gather(*waiters)

    assert bench.syncs == 1
    assert bench.log.synced_offset == bench.log.written_offset


async def test_who_comes_during_a_sync_shares_the_next_one(bench: Bench) -> None:
    bench.may_run.clear()
    first = bench.wait_for(bench.send())
    await turns()
    later = [bench.wait_for(bench.send()) for _ in range(10)]
    await turns()
    assert (bench.under_way, bench.syncs) == (1, 0)

    bench.may_run.set()
    await asyncio.gather(first, *later)

    assert bench.syncs == 2


async def test_nobody_goes_on_before_their_own_sync_is_done(bench: Bench) -> None:
    order: list[str] = []
    bench.commits.on_synced(lambda offset: order.append(f"synced {offset}"))

    async def wait(name: str, log_offset: int) -> None:
        await bench.commits.durable(log_offset)
        order.append(name)

    bench.may_run.clear()
    one = bench.send()
    first = asyncio.create_task(wait("first", one))
    await turns()
    other = bench.send()
    second = asyncio.create_task(wait("second", other))
    await turns()

    bench.may_run.set()
    await asyncio.gather(first, second)

    assert order == [f"synced {one}", "first", f"synced {other}", "second"]


async def test_a_request_syncs_without_a_waiter(bench: Bench) -> None:
    end = bench.send()

    bench.commits.request_sync()
    await turns()

    assert bench.log.synced_offset == end


async def test_what_async_sends_left_is_synced_after_the_flush_interval(bench: Bench) -> None:
    end = bench.send()
    await turns()
    before = bench.log.synced_offset
    seconds, nap = bench.naps[-1]

    nap.set_result(None)
    await turns()

    assert (seconds, before, bench.log.synced_offset) == (0.5, 0, end)
    assert len(bench.naps) == 2


async def test_an_idle_log_is_not_synced(bench: Bench) -> None:
    await turns()

    bench.naps[-1][1].set_result(None)
    await turns()

    assert bench.syncs == 0


async def test_a_waiter_that_went_away_disturbs_nobody(bench: Bench) -> None:
    bench.may_run.clear()
    gone, staying = bench.wait_for(bench.send()), bench.wait_for(bench.send())
    await turns()
    gone.cancel()
    await turns()

    bench.may_run.set()
    await staying

    assert gone.cancelled()


async def test_the_next_segment_is_made_before_it_is_needed(bench: Bench) -> None:
    while bench.log.written_offset < SMALL.segment_bytes * 3 // 4:
        bench.log.append([run_of([bytes(4_000)])])

    await bench.commits.durable(bench.log.written_offset)
    await turns()

    assert len(bench.disk.names("commitlog")) == 2


async def test_a_failed_sync_fails_all_who_wait_and_is_never_tried_again(bench: Bench) -> None:
    bench.may_run.clear()
    covered = bench.wait_for(bench.send())
    await turns()
    later = bench.wait_for(bench.send())
    bench.disk.fail_sync_from = bench.disk.sync_count + 1

    bench.may_run.set()
    results = await asyncio.gather(covered, later, return_exceptions=True)

    assert bench.disk.faults["sync"] == 1
    assert [type(result) for result in results] == [SyncFailed, SyncFailed]
    assert [type(error) for error in bench.fatal] == [SyncFailed]
    bench.disk.fail_sync_from = None
    with pytest.raises(SyncFailed):
        await bench.commits.durable(bench.log.written_offset)
    with pytest.raises(SyncFailed):
        bench.send()
    with pytest.raises(SyncFailed):
        await bench.commits.close()
    bench.commits.request_sync()
    await turns()
    assert bench.syncs == 1
    assert bench.log.synced_offset == 0


async def test_a_sync_that_breaks_otherwise_leaves_nobody_waiting(bench: Bench) -> None:
    async def broken(work: Callable[[], None]) -> None:
        raise RuntimeError("no thread to be had")

    bench.commits._run_in_thread = broken

    with pytest.raises(SyncFailed):
        await bench.commits.durable(bench.send())

    (error,) = bench.fatal
    assert isinstance(error.__cause__, RuntimeError)


async def test_closing_syncs_and_answers_who_waits(bench: Bench) -> None:
    bench.may_run.clear()
    waiter = bench.wait_for(bench.send())
    await turns()
    unasked = bench.send()
    closing = asyncio.create_task(bench.commits.close())
    await turns()
    assert not closing.done()

    bench.may_run.set()
    await asyncio.gather(closing, waiter)

    assert bench.log.synced_offset == unasked


async def test_a_closed_group_commit_refuses_to_wait(bench: Bench) -> None:
    await bench.commits.close()
    end = bench.send()

    with pytest.raises(Stopping):
        await bench.commits.durable(end)


# --- who waits too long -------------------------------------------------------------------------


async def test_who_waits_too_long_is_told_that_it_is_stored_and_not_confirmed(bench: Bench) -> None:
    bench.may_run.clear()
    late = bench.wait_for(bench.send())
    await turns()
    bench.clock.advance(3_000)
    later = bench.wait_for(bench.send())
    await turns()
    assert [alarm.seconds for alarm in bench.alarms] == [5.0]

    bench.clock.advance(2_000)
    bench.alarms[0].callback()
    await turns()

    with pytest.raises(FlushTimeout):
        late.result()
    assert not later.done()
    assert (bench.commits.sync_ms, bench.commits.is_stuck) == (5_000, True)
    assert bench.alarms[-1].seconds == 3.0
    bench.may_run.set()
    await later
    assert (bench.commits.sync_ms, bench.commits.is_stuck) == (0, False)
    assert bench.log.synced_offset == bench.log.written_offset
    assert bench.alarms[-1].is_cancelled
    assert bench.fatal == []


async def test_who_asks_again_after_a_time_out_waits_for_the_same_bytes(bench: Bench) -> None:
    bench.may_run.clear()
    end = bench.send()
    first = bench.wait_for(end)
    await turns()
    bench.clock.advance(5_000)
    bench.alarms[0].callback()
    again = bench.wait_for(end)
    await turns()
    assert (first.done(), again.done()) == (True, False)

    bench.may_run.set()
    await again

    with pytest.raises(FlushTimeout):
        await first


async def test_a_checkpoint_waits_for_ever(bench: Bench) -> None:
    bench.may_run.clear()
    patient = asyncio.create_task(bench.commits.durable(bench.send(), is_patient=True))
    await turns()
    impatient = bench.wait_for(bench.send())
    await turns()
    bench.clock.advance(60_000)
    (alarm,) = bench.alarms
    alarm.callback()
    await turns()
    assert (patient.done(), impatient.done()) == (False, True)

    bench.may_run.set()
    await patient

    with pytest.raises(FlushTimeout):
        await impatient


async def test_a_timely_sync_leaves_no_alarm(bench: Bench) -> None:
    await asyncio.gather(*(bench.wait_for(bench.send()) for _ in range(5)))

    assert [alarm.is_cancelled for alarm in bench.alarms] == [True]


# --- the asynchronous flush ---------------------------------------------------------------------


async def nap_is_over(bench: Bench, *, passed_ms: int = 500) -> None:
    """Let a flush interval pass."""
    bench.clock.advance(passed_ms)
    bench.naps[-1][1].set_result(None)
    await turns()


async def test_less_than_the_least_pages_waits_for_the_thorough_interval() -> None:
    bench = Bench(replace(SMALL, flush_least_pages=2, flush_thorough_ms=2_000))
    await turns()
    bench.log.append([run_of([bytes(4_000)])])

    for _ in range(3):
        await nap_is_over(bench)
    assert (bench.syncs, bench.log.synced_offset) == (0, 0)
    await nap_is_over(bench)
    assert (bench.syncs, bench.log.synced_offset) == (1, bench.log.written_offset)

    bench.log.append([run_of([bytes(8_000)])])
    await nap_is_over(bench)
    assert bench.syncs == 2
    await bench.commits.close()


async def test_who_waits_does_not_wait_for_pages() -> None:
    bench = Bench(replace(SMALL, flush_least_pages=1_000))

    await bench.commits.durable(bench.send())

    assert bench.syncs == 1
    await bench.commits.close()
