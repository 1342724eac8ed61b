"""Power cut at every sync, and a process that dies at every step, while the log loses its front.

Whatever the moment: the store opens, what nobody has given up is there and right, what is in flight
or waits is there, queues count on, and the next cleaning finishes what was begun.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from apps.engine.broker.core import Broker, open_broker
from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import decode_record
from apps.engine.errors import EngineError, StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.local import LocalEngine
from apps.engine.local.retentionloop import Cleaner
from apps.engine.log.front import LogFront
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import PullRequest
from tests.engine.local.keeping import CONFIG, HOUR_MS, Keeping, receive, segments_on, send

AGED_MS = 73 * HOUR_MS
OLD, NEW = 8, 10
POINTS = (
    "retention.before_start",
    "retention.after_start",
    "retention.before_unlink",
    "retention.after_unlink",
    "checkpoint.before_replace",
    "checkpoint.after_replace",
)


async def prepared(store: Keeping) -> SimulatedDisk:
    """Fill a store: messages that are old, a group with some settled, messages that are not.

    Its owner is killed before any checkpoint, so that the next one stands on the whole log.
    """
    async with store.opened() as engine:
        await send(engine, 3, queue=1)
        await engine.ack("g", await receive(engine, most=3))
        await send(engine, OLD)
        store.clock.advance(AGED_MS)
        await send(engine, NEW)
        return store.disk.crash_image(random.Random(0), CrashMode.EVERYTHING)


async def cleaned(
    store: Keeping, *, cut_at: int | None = None, spoil: Callable[[LocalEngine], None] | None = None
) -> int:
    """Clean the store; the power goes at sync `cut_at`. Return how many syncs that took."""
    engine = await LocalEngine.open(
        Path(),
        store.config,
        clock=store.clock,
        disk=store.disk,
        failpoints=Failpoints(store.failpoints),
    )
    begin = store.disk.sync_count
    store.disk.fail_sync_from = None if cut_at is None else begin + cut_at
    if spoil is not None:
        spoil(engine)
    with suppress(EngineError):
        await engine.clean_now()
        await engine.clean_now()
    syncs = store.disk.sync_count - begin
    image = store.disk
    # The process is gone: what its end would write is written to another disk.
    store.disk = image.crash_image(random.Random(0), CrashMode.EVERYTHING)
    image_after = store.disk
    store.disk = image
    image.fail_sync_from = 1
    with suppress(EngineError):
        await engine.close()
    image.fail_sync_from = None
    store.disk = image_after
    return syncs


def checked(disk: SimulatedDisk, store: Keeping) -> None:
    """Open what is left twice, and clean between; AssertionError or StoreDamaged when it is bad."""
    first = _found(disk, store)
    assert set(range(OLD, OLD + NEW)) <= set(first), "a young message is gone"
    again = Keeping(disk=disk, clock=store.clock)

    async def finish() -> None:
        async with again.opened() as engine:
            await engine.clean_now()
            assert segments_on(disk)[0] == engine.status().log_start
            assert engine.status().log_start > 0
            # Queues count on, also the one of which nothing is left.
            await send(engine, 1, queue=1)
            assert engine.queue_ranges("t")[1].max_offset == 4

    asyncio.run(finish())
    assert set(range(OLD, OLD + NEW)) <= set(_found(disk, store))


def _found(disk: SimulatedDisk, store: Keeping) -> list[int]:
    broker = open_broker(disk, config=CONFIG, clock=store.clock, failpoints=Failpoints())
    offsets = _offsets(broker)
    settled = sum(progress.floor for progress in broker.state.progress.values())
    assert settled >= 3, "what was settled is not any more"
    broker.checkpoint()
    broker.close()
    return offsets


def _offsets(broker: Broker) -> list[int]:
    low = broker.queues.queue("t", 0).min_offset
    result = broker.pull(PullRequest(topic="t", queue=0, queue_offset=low, messages_max=1000))
    offsets = []
    for start in starts_of(result.block.sizes).tolist():
        record = decode_record(result.block.payload, start)
        assert record.body.rstrip(b".") == f"t/0/{record.queue_offset}".encode()
        offsets.append(record.queue_offset)
    assert offsets == list(range(low, OLD + NEW)), "a hole"
    return offsets


def image_of(prepared_disk: SimulatedDisk, store: Keeping) -> Keeping:
    """Return a store of its own on a copy of a disk."""
    copy = prepared_disk.crash_image(random.Random(0), CrashMode.EVERYTHING)
    return Keeping(disk=copy, clock=store.clock)


def base_store() -> Keeping:
    store = Keeping()
    store.disk = asyncio.run(prepared(store))
    return store


def test_a_power_cut_at_any_sync_of_a_cleaning_loses_nothing_that_is_young() -> None:
    base = base_store()
    total = asyncio.run(cleaned(image_of(base.disk, base)))
    assert total > 15
    cases = 0
    for cut_at in range(1, total + 1):
        store = image_of(base.disk, base)
        asyncio.run(cleaned(store, cut_at=cut_at))
        for modes, left in store.disk.crash_images(cut_at):
            cases += len(modes)
            print(f"cut at sync {cut_at}, {modes}, seed {cut_at}")
            checked(left, store)
    assert cases == total * len(CrashMode)


@pytest.mark.parametrize("point", POINTS)
def test_a_process_that_dies_at_any_step_of_a_cleaning_is_followed_by_one_that_finishes(
    point: str,
) -> None:
    base = base_store()
    died = 0
    for occurrence in range(1, 40):
        store = image_of(base.disk, base)
        store.failpoints = f"{point}=error({occurrence})"
        plan = Failpoints(store.failpoints)
        fired = asyncio.run(_dies(store, plan))
        if not fired:
            break
        died += 1
        for modes, left in store.disk.crash_images(occurrence):
            print(f"{store.failpoints}, {modes}, seed {occurrence}")
            checked(left, store)
    assert died >= 1, "the fault did not fire"


async def _dies(store: Keeping, plan: Failpoints) -> bool:
    engine = await LocalEngine.open(Path(), store.config, clock=store.clock, disk=store.disk)
    broker = engine._host.broker
    broker.log.front._failpoints = plan
    broker.log._failpoints = plan
    broker._failpoints = plan
    broker.queues._failpoints = plan
    with suppress(EngineError):
        await engine.clean_now()
    left = store.disk.crash_image(random.Random(0), CrashMode.EVERYTHING)
    fired = bool(plan.fired)
    store.disk.fail_sync_from = 1
    with suppress(EngineError):
        await engine.close()
    store.disk = left
    return fired


def _fails_somewhere(spoil: Callable[[LocalEngine], None]) -> bool:
    base = base_store()
    total = asyncio.run(cleaned(image_of(base.disk, base), spoil=spoil))
    for cut_at in range(1, total + 1):
        store = image_of(base.disk, base)
        asyncio.run(cleaned(store, cut_at=cut_at, spoil=spoil))
        for _, left in store.disk.crash_images(cut_at):
            try:
                checked(left, store)
            except (AssertionError, StoreDamaged):
                return True
    return False


def test_unlinking_before_the_start_is_on_the_disk_is_caught() -> None:
    def spoil(engine: LocalEngine) -> None:
        front: LogFront = engine._host.broker.log.front
        store_start = front.store_start

        def hasty(retained: object) -> None:
            for base in range(front.log_start, retained.log_start, front.segment_bytes):  # type: ignore[attr-defined]
                front._disk.remove(front._segments.path(base))
            front._segments.settle_names()
            store_start(retained)  # type: ignore[arg-type]

        front.store_start = hasty  # type: ignore[method-assign]

    assert _fails_somewhere(spoil)


def test_deleting_what_the_last_checkpoint_still_reads_is_caught() -> None:
    def spoil(engine: LocalEngine) -> None:
        cleaner: Cleaner = engine._cleaner
        engine._host.checkpoint = _nothing  # type: ignore[method-assign]
        cleaner._retention.checkpoint_holders = dict  # type: ignore[method-assign]

    assert _fails_somewhere(spoil)


def test_a_start_that_forgets_where_queues_begin_is_caught() -> None:
    def spoil(engine: LocalEngine) -> None:
        retention = engine._host.broker.retention
        store_start = retention.store_start
        retention.store_start = lambda log_start, _: store_start(log_start, {})  # type: ignore[method-assign]
        # So that the next start has to make the queues from the log.
        engine._host.broker._disk.remove("checkpoint/consumequeue")
        engine._host.checkpoint = _nothing  # type: ignore[method-assign]
        retention.checkpoint_holders = dict  # type: ignore[method-assign]

    assert _fails_somewhere(spoil)


async def _nothing() -> None:
    return None
