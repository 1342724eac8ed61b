"""Readers that wait with a filter: they are not answered by what they did not ask for."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.errors import InvalidFilter
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.types import (
    AckMode,
    CatalogSnapshot,
    FilterType,
    MessageBlock,
    PullRequest,
    PullStatus,
    ReceiveRequest,
    RecordBatch,
    TopicSpec,
)

CONFIG = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0)
SQL92 = FilterType.SQL92


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[LocalEngine]:
    engine = await LocalEngine.open(tmp_path, CONFIG)
    engine.publish_catalog(
        CatalogSnapshot(version=1, topics={"t": TopicSpec(name="t", queue_count=1)})
    )
    yield engine
    await engine.close()


async def send(engine: LocalEngine, properties: Mapping[str, str], times: int = 1) -> None:
    record = encode_record(topic=b"t", queue=0, body=b"", properties=encode_properties(properties))
    batch = RecordBatch(
        topic="t",
        queue=0,
        payload=bytearray(record * times),
        sizes=np.full(times, len(record), dtype=np.int32),
    )
    await engine.append([batch], ack=AckMode.SYNC)


def offsets_of(block: MessageBlock) -> list[int]:
    starts = starts_of(block.sizes).tolist()
    return [decode_record(block.payload, start).queue_offset for start in starts]


def pulling(text: str, *, wait_ms: int) -> PullRequest:
    return PullRequest(
        topic="t", queue=0, queue_offset=0, filter=text, filter_type=SQL92, wait_ms=wait_ms
    )


def receiving(text: str, *, wait_ms: int) -> ReceiveRequest:
    return ReceiveRequest(group="g", topics=("t",), filter=text, filter_type=SQL92, wait_ms=wait_ms)


async def wait_until_parked(engine: LocalEngine) -> None:
    """Let whoever was woken look, and wait again or answer."""
    for _ in range(20):
        await asyncio.sleep(0)
    while engine.status().parked < 1:
        await asyncio.sleep(0)


async def test_a_parked_pull_waits_on_behind_what_its_filter_does_not_take(
    engine: LocalEngine,
) -> None:
    waiting = asyncio.create_task(engine.pull(pulling("n > 5", wait_ms=20_000)))
    await wait_until_parked(engine)

    for _ in range(5):
        await send(engine, {"n": "1"})
        await wait_until_parked(engine)
    was_answered = waiting.done()
    await send(engine, {"n": "9"})
    result = await waiting

    assert not was_answered
    assert (result.status, offsets_of(result.block), result.next_offset) == (
        PullStatus.FOUND,
        [5],
        6,
    )


async def test_a_pull_whose_time_is_over_says_how_far_it_has_looked(engine: LocalEngine) -> None:
    await send(engine, {"n": "1"}, times=1500)

    result = await engine.pull(pulling("n > 5", wait_ms=200))

    # A slow machine may not come to the end within the time.
    assert (result.status, result.next_offset >= 1024) == (PullStatus.NO_MATCHED_MSG, True)


async def test_a_parked_receive_waits_on_behind_what_its_filter_does_not_take(
    engine: LocalEngine,
) -> None:
    waiting = asyncio.create_task(engine.receive(receiving("n > 5", wait_ms=20_000)))
    await wait_until_parked(engine)

    for _ in range(5):
        await send(engine, {"n": "1"})
        await wait_until_parked(engine)
    was_answered = waiting.done()
    await send(engine, {"n": "9"})
    result = await waiting

    assert not was_answered
    assert [offsets_of(lease.block) for lease in result.leases] == [[5]]


async def test_a_receive_that_waits_looks_through_any_backlog_and_lets_others_in(
    engine: LocalEngine,
) -> None:
    for _ in range(5):
        await send(engine, {"n": "1"}, times=1000)
    await send(engine, {"n": "9"})

    receive = asyncio.create_task(engine.receive(receiving("n > 5", wait_ms=20_000)))
    turns = 0
    while not receive.done():
        await asyncio.sleep(0)
        turns += 1
    result = await receive

    assert [offsets_of(lease.block) for lease in result.leases] == [[5000]]
    assert turns >= 5


async def test_a_receive_that_does_not_wait_looks_at_so_much_and_goes_on_the_next_time(
    engine: LocalEngine,
) -> None:
    await send(engine, {"n": "1"}, times=1500)
    await send(engine, {"n": "9"})

    first = await engine.receive(receiving("n > 5", wait_ms=0))
    second = await engine.receive(receiving("n > 5", wait_ms=0))

    assert (first.leases, first.has_more) == ((), True)
    assert [offsets_of(lease.block) for lease in second.leases] == [[1500]]


async def test_a_bad_filter_is_refused_before_anybody_waits(engine: LocalEngine) -> None:
    with pytest.raises(InvalidFilter):
        await engine.pull(pulling("n >", wait_ms=20_000))
    with pytest.raises(InvalidFilter):
        await engine.receive(receiving("n >", wait_ms=20_000))

    assert engine.status().parked == 0
