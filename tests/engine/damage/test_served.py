"""Damage met by a whole engine: nobody waits for the disk on the loop, and everybody is told."""

import struct

import pytest
from mqclient.wire.batches import unpack_pulled

from apps.engine.codec import wire
from apps.engine.local.engine import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import PullRequest, PullStatus, ReceiveRequest
from tests.engine.damage.stores import CONFIG, TOPICS, filled, image, opened


@pytest.fixture(scope="module")
def intact() -> SimulatedDisk:
    return filled(messages=60)


def rotten(intact: SimulatedDisk, queue_offset: int) -> SimulatedDisk:
    """Return the store with a bad body at an offset of orders/0, and nothing in the page cache."""
    disk = image(intact)
    broker = opened(image(intact))
    entry = broker.queues.queue("orders", 0).read(queue_offset, 1)[0]
    at = int(entry["log_offset"]) + 90
    path = f"commitlog/{at - at % 65_536:020d}"
    before = disk.content()[path]
    disk.flip(path, at % 65_536)
    assert disk.content()[path] != before
    return disk


async def test_a_cold_reader_gets_all_the_others(intact: SimulatedDisk) -> None:
    disk = rotten(intact, 2)
    engine = await LocalEngine.open(
        "unused",  # type: ignore[arg-type]
        CONFIG,
        clock=ManualClock(),
        disk=disk,
    )
    disk.make_cold()

    result = await engine.pull(PullRequest(topic="orders", queue=0, queue_offset=0))
    status = engine.status()
    await engine.close()

    assert disk.faults["cold"] > 0
    assert result.status is PullStatus.FOUND
    assert result.unreadable == 1
    assert len(result.block) == result.next_offset - 1
    assert (status.quarantined_ranges, status.unreadable_messages) == (1, 1)
    assert status.quarantine[0].lost[0].first == 2


async def test_a_waiting_pull_that_finds_only_damage_is_answered_at_once(
    intact: SimulatedDisk,
) -> None:
    disk = image(intact)
    end = opened(image(intact)).queues.queue("orders", 0).end
    disk = rotten(intact, end - 1)
    engine = await LocalEngine.open(
        "unused",  # type: ignore[arg-type]
        CONFIG,
        clock=ManualClock(),
        disk=disk,
    )

    result = await engine.pull(
        PullRequest(topic="orders", queue=0, queue_offset=end - 1, wait_ms=30_000)
    )
    await engine.close()

    assert result.status is PullStatus.NO_MATCHED_MSG
    assert (result.next_offset, result.unreadable) == (end, 1)


async def test_a_receive_passes_over_it(intact: SimulatedDisk) -> None:
    engine = await LocalEngine.open(
        "unused",  # type: ignore[arg-type]
        CONFIG,
        clock=ManualClock(),
        disk=rotten(intact, 0),
    )

    request = ReceiveRequest(group="fresh", topics=tuple(TOPICS), messages_max=1000)
    leases = [*(await engine.receive(request)).leases, *(await engine.receive(request)).leases]
    await engine.close()

    assert sum(len(lease.block) for lease in leases) >= 59


def test_the_binary_answer_carries_the_count_beside_the_status(intact: SimulatedDisk) -> None:
    broker = opened(rotten(intact, 1))
    result = broker.pull(PullRequest(topic="orders", queue=0, queue_offset=1, messages_max=1))

    answer = b"".join(wire.build_pull(result))

    assert struct.unpack_from(">I", answer, 4) == (2 | 1 << 8,)
    pulled = unpack_pulled(answer)
    assert (pulled.status, pulled.unreadable) == ("NO_MATCHED_MSG", 1)
