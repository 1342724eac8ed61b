"""Retries, dead letters and delay levels through the engine's verbs: what waits and what wakes."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.errors import InvalidArgument, StoreFull
from apps.engine.failuretypes import FailedMessage, Resend, Returned
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine, burials
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    AckMode,
    CatalogSnapshot,
    GroupSpec,
    PullRequest,
    ReceiveRequest,
    RecordBatch,
    Settled,
    TopicSpec,
)

CONFIG = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0)
CATALOG = CatalogSnapshot(
    version=1,
    topics={"orders": TopicSpec(name="orders", queue_count=1)},
    groups={"once": GroupSpec(name="once", retry_max=0)},
)


class Store:
    """An engine on a simulated disk and a clock that stands still, opened again at will."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.clock = ManualClock()
        self.engine: LocalEngine

    async def open(self) -> LocalEngine:
        self.engine = await LocalEngine.open(".", CONFIG, disk=self.disk, clock=self.clock)  # type: ignore[arg-type]
        self.engine.publish_catalog(CATALOG)
        return self.engine

    async def restart(self) -> LocalEngine:
        await self.engine.close()
        return await self.open()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    opened = Store()
    await opened.open()
    yield opened
    await opened.engine.close()


async def put(engine: LocalEngine, *bodies: bytes, **properties: str) -> None:
    section = encode_properties(properties)
    records = [
        encode_record(topic=b"orders", queue=0, body=body, properties=section) for body in bodies
    ]
    batch = RecordBatch(
        topic="orders",
        queue=0,
        payload=bytearray(b"".join(records)),
        sizes=np.array([len(record) for record in records], dtype=np.int32),
    )
    await engine.append([batch], ack=AckMode.SYNC)


async def bodies(engine: LocalEngine, topic: str, *, wait_ms: int = 0) -> list[bytes]:
    """Return what a queue shows, once there is something."""
    request = PullRequest(topic=topic, queue=0, queue_offset=0, wait_ms=wait_ms)
    block = (await engine.pull(request)).block
    return [decode_record(block.payload, start).body for start in starts_of(block.sizes).tolist()]


async def receive(engine: LocalEngine, group: str, **what: object) -> list[str]:
    """Receive from `orders`; return one handle a lease."""
    request = ReceiveRequest(group=group, topics=("orders",), **what)  # type: ignore[arg-type]
    leases = (await engine.receive(request)).leases
    return [f"{lease.token}:0-{len(lease.block) - 1}" for lease in leases]


def failed(*offsets: int) -> list[FailedMessage]:
    return [FailedMessage(topic="orders", queue=0, queue_offset=offset) for offset in offsets]


async def test_the_last_failure_given_back_is_a_dead_letter_when_it_is_answered(
    store: Store,
) -> None:
    await put(store.engine, b"x", b"y")
    (handle,) = await receive(store.engine, "once")

    (result,) = await store.engine.nack("once", [handle], reason="bad")
    assert result.outcome is Settled.OK
    assert await bodies(store.engine, "%DLQ%once") == [b"x", b"y"]
    (again,) = await store.engine.nack("once", [handle])
    (late,) = await store.engine.ack("once", [handle])
    assert (again.outcome, late.outcome) == (Settled.EXPIRED, Settled.EXPIRED)
    assert await receive(store.engine, "once") == []


async def test_level_minus_one_makes_a_dead_letter_of_a_first_failure(store: Store) -> None:
    await put(store.engine, b"x", b"y")
    (handle,) = await receive(store.engine, "g")
    first = handle.replace(":0-1", ":0")

    (one, foreign) = await store.engine.nack("g", [first, "nonsense"], delay_level=-1)
    assert (one.outcome, foreign.outcome) == (Settled.OK, Settled.INVALID)
    assert await bodies(store.engine, "%DLQ%g") == [b"x"]
    (rest,) = await store.engine.ack("g", [handle])
    assert rest.outcome is Settled.OK


async def test_a_nack_with_a_bad_delay_changes_nothing(store: Store) -> None:
    await put(store.engine, b"x")
    (handle,) = await receive(store.engine, "once")

    for what in ({"delay_ms": -1}, {"delay_level": -2}, {"delay_ms": 1, "delay_level": 1}):
        with pytest.raises(InvalidArgument):
            await store.engine.nack("once", [handle], **what)
    (result,) = await store.engine.ack("once", [handle])
    assert result.outcome is Settled.OK


async def test_a_lease_that_expires_for_the_last_time_is_buried_without_anybody_asking(
    store: Store,
) -> None:
    await put(store.engine, b"x")
    await receive(store.engine, "once", invisible_ms=10)
    letters = asyncio.create_task(bodies(store.engine, "%DLQ%once", wait_ms=20_000))
    while store.engine.status().parked < 1:
        await asyncio.sleep(0)
    store.clock.advance(10)

    # The alarm of the lease is of real time, 10 ms from now.
    assert await letters == [b"x"]


async def test_what_a_full_disk_held_up_is_buried_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(burials, "_AGAIN_S", 0.0)
    burying = store.engine._host.broker.burying
    bury, refusals = burying.bury, iter(range(3))

    def refused(burial, read):  # type: ignore[no-untyped-def]
        if next(refusals, None) is not None:
            raise StoreFull("no room")
        return bury(burial, read)

    monkeypatch.setattr(burying, "bury", refused)
    await put(store.engine, b"x")
    await receive(store.engine, "once", invisible_ms=10)
    store.clock.advance(10)

    assert await bodies(store.engine, "%DLQ%once", wait_ms=20_000) == [b"x"]
    assert next(refusals, None) is None


async def test_what_expired_while_the_engine_was_away_is_buried_at_its_start(store: Store) -> None:
    await put(store.engine, b"x")
    await receive(store.engine, "once", invisible_ms=10_000)
    await store.engine.close()
    store.clock.advance(20_000)
    engine = await store.open()

    assert await bodies(engine, "%DLQ%once", wait_ms=20_000) == [b"x"]


async def test_a_parked_receive_wakes_for_a_retry_whatever_its_filter(store: Store) -> None:
    await put(store.engine, b"x", TAGS="a")
    waiting = asyncio.create_task(receive(store.engine, "g", filter="b", wait_ms=20_000))
    while store.engine.status().parked < 1:
        await asyncio.sleep(0)

    (result,) = await store.engine.send_back("g", failed(0), delay_ms=0)
    assert result.outcome is Returned.ALREADY, "the filter has passed it over"
    await put(store.engine, b"y", TAGS="b")
    (handle,) = await waiting
    waiting = asyncio.create_task(receive(store.engine, "other", filter="zz", wait_ms=20_000))
    while store.engine.status().parked < 1:
        await asyncio.sleep(0)
    await put(store.engine, b"z", TAGS="c")
    (result,) = await store.engine.send_back("other", failed(2), delay_ms=0)

    assert result.outcome is Returned.RETRY
    assert len(await waiting) == 1
    assert handle


@pytest.mark.parametrize("is_cold", [False, True])
async def test_messages_are_delayed_sent_back_and_sent_again_from_a_cold_disk_too(
    store: Store, is_cold: bool
) -> None:
    await put(store.engine, b"x", b"y", DELAY="1")
    store.clock.advance(1_000)
    engine = await store.restart()
    if is_cold:
        store.disk.make_cold()
    done = await asyncio.gather(*[engine.deliver_levels() for _ in range(3)])
    assert sorted(item.delivered for item in done) == [0, 0, 2]
    assert not done[0].more
    assert await bodies(engine, "orders", wait_ms=5_000) == [b"x", b"y"]

    engine = await store.restart()
    if is_cold:
        store.disk.make_cold()
    both = await asyncio.gather(
        engine.send_back("g", failed(0, 1), delay_level=-1),
        engine.send_back("g", failed(1, 0), delay_level=-1),
    )
    found = sorted(result.outcome for results in both for result in results)
    assert found == [Returned.ALREADY] * 2 + [Returned.DEAD_LETTER] * 2
    engine = await store.restart()
    if is_cold:
        store.disk.make_cold()
    sent = await asyncio.gather(engine.resend("g", [0, 1]), engine.resend("g", [1, 0]))
    assert sorted(result.outcome for results in sent for result in results) == [
        Resend.ALREADY, Resend.ALREADY, Resend.SENT, Resend.SENT,
    ]  # fmt: skip
    assert sorted(await bodies(engine, "orders")) == [b"x", b"x", b"y", b"y"]
    assert list(engine.own_ranges("%DLQ%")) == ["%DLQ%g"]
    assert bool(store.disk.faults["cold"]) is is_cold


async def test_a_delivery_wakes_who_waits_for_the_topic(store: Store) -> None:
    await put(store.engine, b"x", DELAY="1")
    waiting = asyncio.create_task(bodies(store.engine, "orders", wait_ms=20_000))
    while store.engine.status().parked < 1:
        await asyncio.sleep(0)
    store.clock.advance(1_000)
    assert store.engine.delay_levels().more

    assert (await store.engine.deliver_levels(1)).delivered == 1
    assert await waiting == [b"x"]


@pytest.mark.parametrize("messages_max", [0, -1, 1 << 20])
async def test_a_delivery_of_none_or_too_many_is_refused(store: Store, messages_max: int) -> None:
    with pytest.raises(InvalidArgument):
        await store.engine.deliver_levels(messages_max)


async def test_levels_are_listed_through_the_verb_and_lost_ones_counted(store: Store) -> None:
    await put(store.engine, b"x", DELAY="1")
    page = await store.engine.delayed(level=1)
    assert [message.topic for message in page.messages] == ["orders"]
    store.engine.publish_catalog(CatalogSnapshot(version=9))
    store.clock.advance(1_000)

    assert (await store.engine.deliver_levels()).delivered == 0
    assert store.engine.delay_status().without_topic == 1
    assert (await store.engine.delayed(level=1)).messages == ()
