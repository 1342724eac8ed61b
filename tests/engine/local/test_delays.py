"""Delayed messages in a running engine: what wakes, what the verbs answer, what threads do."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from apps.engine.broker.core import open_broker
from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import TIMER_DELAY_MS, TIMER_DELIVER_MS, UNIQ_KEY
from apps.engine.codec.record import decode_record
from apps.engine.delaytypes import Recall
from apps.engine.errors import Stopping
from apps.engine.failpoints import Failpoints
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    AckMode,
    Appended,
    CatalogSnapshot,
    PullRequest,
    PullStatus,
    TopicSpec,
)
from tests.engine.broker.delayed import CONFIG, TINY, batch, record

HOUR_MS = 3_600_000


class Bench:
    """An engine on a simulated disk whose clock a test moves."""

    def __init__(self, disk: SimulatedDisk, clock: ManualClock) -> None:
        self.disk = disk
        self.clock = clock
        broker = open_broker(disk, config=CONFIG, clock=clock, failpoints=Failpoints(), tuning=TINY)
        lock = disk.lock("lock", owner={})
        self.engine = LocalEngine(broker, lock, config=CONFIG, on_fatal=None)
        topics = {"t": TopicSpec(name="t", queue_count=1)}
        self.engine.publish_catalog(CatalogSnapshot(version=1, topics=topics))

    async def send(self, dues: dict[str, int]) -> Appended:
        records = [
            record(body.encode(), properties={TIMER_DELIVER_MS: str(due), UNIQ_KEY: body})
            for body, due in dues.items()
        ]
        (answer,) = await self.engine.append([batch(records)], ack=AckMode.SYNC)
        return answer

    async def pull(self, *, wait_ms: int = 10_000) -> list[str]:
        request = PullRequest(topic="t", queue=0, queue_offset=0, wait_ms=wait_ms)
        answer = await self.engine.pull(request)
        if answer.status is not PullStatus.FOUND:
            return []
        payload = answer.block.payload
        starts = starts_of(answer.block.sizes).tolist()
        return [decode_record(payload, start).body.decode() for start in starts]

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not is_so():
                await asyncio.sleep(0.01)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench(SimulatedDisk(), ManualClock())
    yield made
    await made.engine.close()


async def test_a_delivery_wakes_a_pull_that_waits(bench: Bench) -> None:
    await bench.send({"late": bench.clock.wall_ms() + 1_000})
    pull = asyncio.create_task(bench.pull())
    await bench.until(lambda: bench.engine.status().parked == 1)

    bench.clock.advance(1_000)

    assert await pull == ["late"]
    assert bench.engine.delay_status().delivered == 1


async def test_a_message_that_is_due_sooner_is_not_kept_waiting_by_one_that_is_due_later(
    bench: Bench,
) -> None:
    await bench.send({"year": bench.clock.wall_ms() + 365 * 24 * HOUR_MS})
    await bench.engine.append(
        [batch([record(b"now", properties={TIMER_DELAY_MS: "0"})])], ack=AckMode.SYNC
    )

    assert await bench.pull() == ["now"]
    assert bench.engine.delay_status().pending == 1


async def test_verbs_list_cancel_and_send_what_waits(bench: Bench) -> None:
    now_ms = bench.clock.wall_ms()
    answer = await bench.send({"a": now_ms + HOUR_MS, "b": now_ms + 2 * HOUR_MS})

    page = await bench.engine.delayed(messages_max=1)
    rest = await bench.engine.delayed(cursor=page.cursor)
    cancelled = await bench.engine.recall(answer.handles[0])
    sent = await bench.engine.deliver_now(answer.handles[1])

    assert [one.message_id for one in (*page.messages, *rest.messages)] == ["a", "b"]
    assert [one.handle for one in (*page.messages, *rest.messages)] == list(answer.handles)
    assert (cancelled, sent) == (Recall.CANCELLED, Recall.DELIVERED)
    assert await bench.pull() == ["b"]
    status = bench.engine.delay_status()
    assert (status.pending, status.cancelled, status.sent_now) == (0, 1, 1)


async def test_what_is_far_off_moves_to_the_disk_and_comes_back(bench: Bench) -> None:
    now_ms = bench.clock.wall_ms()
    dues = {f"m{number}": now_ms + HOUR_MS + 20 * number for number in range(30)}
    for name, due_ms in dues.items():
        await bench.send({name: due_ms})
    await bench.until(lambda: any(name.endswith(".run") for name in bench.disk.names("timer")))
    await bench.engine.close()

    again = Bench(bench.disk, bench.clock)
    bench.disk.make_cold()
    bench.clock.advance(HOUR_MS + 600)
    await again.until(lambda: again.engine.delay_status().pending == 0)

    assert await again.pull() == list(dues)
    assert bench.disk.faults["cold"], "nothing was cold"
    await again.engine.close()


async def test_an_engine_that_stops_delivers_and_cancels_nothing_more(bench: Bench) -> None:
    (handle,) = (await bench.send({"a": bench.clock.wall_ms() + 1_000})).handles
    await bench.engine.close()
    bench.clock.advance(1_000)

    with pytest.raises(Stopping):
        await bench.engine.recall(handle)

    again = Bench(bench.disk, bench.clock)
    assert await again.pull() == ["a"]
    await again.engine.close()
