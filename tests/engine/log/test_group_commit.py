"""Who shares a sync, who is told what, and what a failed one does. No threads, no real time."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from apps.engine.errors import EngineError, Stopping, SyncFailed
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.groupcommit import GroupCommit
from apps.engine.testing.contracts.log import SMALL, run_of
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk


class Bench:
    """A log, its group commit, and the hands on what it waits for."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.log = CommitLog.open(self.disk, config=SMALL, clock=ManualClock())
        self.syncs_at_start = self.disk.sync_count
        self.under_way = 0
        self.may_run = asyncio.Event()
        self.may_run.set()
        self.naps: list[tuple[float, asyncio.Future[None]]] = []
        self.fatal: list[EngineError] = []
        self.commits = GroupCommit(
            self.log,
            run_in_thread=self.run,
            flush_interval_ms=500,
            sleep=self.sleep,
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
