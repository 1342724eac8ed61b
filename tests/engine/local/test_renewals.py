"""Leases that are kept under their own names, and ordered receives that are asked again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apps.engine.config import EngineConfig
from apps.engine.errors import InvalidArgument, InvalidName
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import (
    AckMode,
    CatalogSnapshot,
    Lease,
    ReceiveRequest,
    ReceiveResult,
    Settled,
    TopicSpec,
)
from tests.engine.local.test_local_engine import a_batch, bodies_of

CONFIG = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0)
CATALOG = CatalogSnapshot(version=1, topics={"orders": TopicSpec(name="orders", queue_count=1)})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def engine(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalEngine]:
    opened = await LocalEngine.open(tmp_path, CONFIG, clock=clock)
    opened.publish_catalog(CATALOG)
    await opened.append([a_batch(b"0", b"1", b"2")], ack=AckMode.SYNC)
    yield opened
    await opened.close()


async def handed_out(engine: LocalEngine, **values: object) -> ReceiveResult:
    request = {"group": "g", "topics": ("orders",), "invisible_ms": 10_000, **values}
    return await engine.receive(ReceiveRequest(**request))  # type: ignore[arg-type]


async def outcome_of(engine: LocalEngine, lease: Lease, offset: int) -> Settled:
    (result,) = await engine.ack("g", [f"{lease.token}:{offset}"])
    return result.outcome


async def test_a_renewed_lease_keeps_its_handles(engine: LocalEngine, clock: ManualClock) -> None:
    (lease,) = (await handed_out(engine)).leases
    clock.advance(9_000)

    (renewed,) = await engine.renew("g", [lease.token], invisible_ms=10_000)
    clock.advance(9_000)

    assert renewed.outcome is Settled.OK
    assert (await handed_out(engine)).leases == ()
    assert await outcome_of(engine, lease, 0) is Settled.OK


async def test_a_renewed_lease_ends_at_its_new_time(
    engine: LocalEngine, clock: ManualClock
) -> None:
    (lease,) = (await handed_out(engine)).leases
    await engine.renew("g", [lease.token], invisible_ms=20_000)

    clock.advance(20_000)
    (again,) = (await handed_out(engine)).leases

    assert (again.attempt, bodies_of(again.block)) == (2, [b"0", b"1", b"2"])
    assert await outcome_of(engine, lease, 0) is Settled.EXPIRED


async def test_a_lease_may_be_given_less_time(engine: LocalEngine, clock: ManualClock) -> None:
    (lease,) = (await handed_out(engine)).leases
    await engine.renew("g", [lease.token], invisible_ms=1_000)

    clock.advance(1_000)

    assert [lease.attempt for lease in (await handed_out(engine)).leases] == [2]


async def test_what_was_settled_is_not_renewed_with_the_rest(
    engine: LocalEngine, clock: ManualClock
) -> None:
    (lease,) = (await handed_out(engine)).leases
    await engine.ack("g", [f"{lease.token}:1"])

    await engine.renew("g", [lease.token], invisible_ms=20_000)
    clock.advance(20_000)
    (again,) = (await handed_out(engine)).leases

    assert bodies_of(again.block) == [b"0", b"2"]


async def test_a_lease_that_is_over_or_foreign_is_not_renewed(
    engine: LocalEngine, clock: ManualClock
) -> None:
    (lease,) = (await handed_out(engine)).leases
    settled = [f"{lease.token}:0-2"]
    (other,) = (await handed_out(engine, group="h")).leases
    await engine.ack("g", settled)
    clock.advance(10_000)

    results = await engine.renew("g", [lease.token, other.token, "nonsense"], invisible_ms=10_000)
    (late,) = await engine.renew("h", [other.token], invisible_ms=10_000)

    assert [result.outcome for result in results] == [
        Settled.EXPIRED, Settled.INVALID, Settled.INVALID,
    ]  # fmt: skip
    assert late.outcome is Settled.EXPIRED


async def test_a_renewal_outlives_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    first = await LocalEngine.open(tmp_path / "a", CONFIG, clock=clock)
    first.publish_catalog(CATALOG)
    await first.append([a_batch(b"0")], ack=AckMode.SYNC)
    (lease,) = (await handed_out(first)).leases
    await first.renew("g", [lease.token], invisible_ms=60_000)
    await first.close()

    clock.advance(30_000)
    second = await LocalEngine.open(tmp_path / "a", CONFIG, clock=clock)
    try:
        assert (await handed_out(second)).leases == ()
        assert await outcome_of(second, lease, 0) is Settled.OK
    finally:
        await second.close()


@pytest.mark.parametrize(
    ("group", "invisible_ms", "error"),
    [("a/b", 10_000, InvalidName), ("g", 9, InvalidArgument), ("g", 1 << 40, InvalidArgument)],
)
async def test_a_renewal_that_cannot_be_is_refused(
    engine: LocalEngine, group: str, invisible_ms: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await engine.renew(group, [], invisible_ms=invisible_ms)


async def test_an_ordered_receive_that_is_asked_again_is_handed_the_same(
    engine: LocalEngine, clock: ManualClock
) -> None:
    (first,) = (await handed_out(engine, ordered=True, messages_max=2, attempt_id="a")).leases
    await engine.ack("g", [f"{first.token}:0"])
    clock.advance(9_000)

    (again,) = (await handed_out(engine, ordered=True, messages_max=2, attempt_id="a")).leases
    clock.advance(9_000)

    assert (again.token, again.attempt) == (first.token, first.attempt)
    assert bodies_of(again.block) == [b"1"]
    assert await outcome_of(engine, again, 1) is Settled.OK


async def test_a_receive_of_another_name_waits_for_what_is_out(engine: LocalEngine) -> None:
    await handed_out(engine, ordered=True, messages_max=2, attempt_id="a")

    other = await handed_out(engine, ordered=True, attempt_id="b")

    assert (other.leases, other.blocked) == ((), (("orders", 0),))


async def test_a_name_whose_messages_are_settled_gets_the_next_ones(engine: LocalEngine) -> None:
    (first,) = (await handed_out(engine, ordered=True, messages_max=2, attempt_id="a")).leases
    await engine.ack("g", [f"{first.token}:0-1"])

    (after,) = (await handed_out(engine, ordered=True, attempt_id="a")).leases

    assert bodies_of(after.block) == [b"2"]


async def test_a_receive_out_of_order_is_never_handed_the_same_by_name(
    engine: LocalEngine,
) -> None:
    await handed_out(engine, messages_max=2, attempt_id="a")

    (after,) = (await handed_out(engine, attempt_id="a")).leases

    assert bodies_of(after.block) == [b"2"]


async def test_an_ordered_receive_goes_on_when_what_it_waits_for_is_settled(
    engine: LocalEngine,
) -> None:
    (first,) = (await handed_out(engine, ordered=True, messages_max=1)).leases
    waiting = asyncio.ensure_future(
        handed_out(engine, ordered=True, messages_max=1, wait_ms=30_000)
    )
    while engine.status().parked == 0:
        await asyncio.sleep(0)

    await engine.ack("g", [f"{first.token}:0"])
    # The engine looks again by itself every five seconds, which must not be what answers it.
    async with asyncio.timeout(3):
        result = await waiting

    assert bodies_of(result.leases[0].block) == [b"1"]


async def test_a_name_has_an_end(engine: LocalEngine) -> None:
    with pytest.raises(InvalidArgument):
        await handed_out(engine, ordered=True, attempt_id="a" * 256)
