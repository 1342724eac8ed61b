"""Groups at work in one process: what waits for a change, what wakes, and what is refused."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.errors import (
    InvalidArgument,
    LockLost,
    NotPermitted,
    OffsetOutOfRange,
    Overloaded,
    StaleGeneration,
    Stopping,
    UnknownQueue,
    UnknownTopic,
)
from apps.engine.grouptypes import (
    BeginOffset,
    HeartbeatRequest,
    HeartbeatResult,
    QueuePlace,
    Subscription,
)
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine, host
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import (
    AckMode,
    CatalogSnapshot,
    ConsumeFrom,
    GroupSpec,
    OffsetCommit,
    PullRequest,
    PullResult,
    PullStatus,
    ReceiveRequest,
    RecordBatch,
    Settled,
    TopicSpec,
)

CONFIG = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0)
FIRST = QueuePlace(topic="orders", queue=0)
SECOND = QueuePlace(topic="orders", queue=1)

Opener = Callable[..., Awaitable[LocalEngine]]


def publish(engine: LocalEngine, *groups: GroupSpec, queue_count: int = 2) -> None:
    engine.publish_catalog(
        CatalogSnapshot(
            version=engine.catalog.version + 1,
            topics={"orders": TopicSpec(name="orders", queue_count=queue_count)},
            groups={spec.name: spec for spec in groups},
        )
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opener]:
    engines: list[LocalEngine] = []

    async def open_engine(
        config: EngineConfig = CONFIG, clock: ManualClock | None = None
    ) -> LocalEngine:
        engine = await LocalEngine.open(tmp_path, config, clock=clock)
        engines.append(engine)
        publish(engine)
        return engine

    yield open_engine
    for engine in engines:
        await engine.close()


@pytest.fixture
async def engine(opened: Opener, clock: ManualClock) -> LocalEngine:
    return await opened(clock=clock)


async def send(engine: LocalEngine, count: int, *, queue: int = 0, tag: str = "") -> None:
    properties = encode_properties({"TAGS": tag} if tag else {})
    record = encode_record(topic=b"orders", queue=queue, body=b"x", properties=properties)
    batch = RecordBatch(
        topic="orders",
        queue=queue,
        payload=bytearray(record * count),
        sizes=np.array([len(record)] * count, dtype=np.int32),
    )
    await engine.append([batch], ack=AckMode.SYNC)


async def beat(engine: LocalEngine, client_id: str, **about: object) -> HeartbeatResult:
    asked: dict[str, object] = {"group": "g", "subscriptions": (Subscription(topic="orders"),)}
    request = HeartbeatRequest(client_id=client_id, **(asked | about))  # type: ignore[arg-type]
    return await engine.heartbeat(request)


async def parked_beat(
    engine: LocalEngine, client_id: str, generation: int
) -> "asyncio.Task[HeartbeatResult]":
    """Begin a heartbeat that waits, and return it once it does."""
    count = engine.status().parked
    waiting = asyncio.create_task(beat(engine, client_id, generation=generation, wait_ms=30_000))
    await until_parked(engine, count + 1)
    return waiting


async def parked_pull(engine: LocalEngine, **about: object) -> "asyncio.Task[PullResult]":
    """Begin a pull of queue 0 for a member of group g, and return it once it waits."""
    count = engine.status().parked
    asked: dict[str, object] = {"group": "g", "client_id": "a", "queue_offset": 0}
    asked |= {"topic": "orders", "queue": 0, "wait_ms": 30_000}
    request = PullRequest(**(asked | about))  # type: ignore[arg-type]
    waiting = asyncio.create_task(engine.pull(request))
    await until_parked(engine, count + 1)
    return waiting


async def until_parked(engine: LocalEngine, count: int) -> None:
    while engine.status().parked != count:
        await asyncio.sleep(0)


async def answered(waiting: "asyncio.Task[HeartbeatResult]") -> HeartbeatResult:
    return await asyncio.wait_for(waiting, timeout=25)


async def test_a_parked_heartbeat_is_answered_when_another_member_joins(
    engine: LocalEngine,
) -> None:
    first = await beat(engine, "a")
    waiting = await parked_beat(engine, "a", first.generation)

    await beat(engine, "b")

    answer = await answered(waiting)
    assert answer.generation > first.generation
    assert (first.assignment, answer.assignment) == ({"orders": (0, 1)}, {"orders": (0,)})


async def test_a_heartbeat_with_an_old_generation_is_answered_at_once(
    engine: LocalEngine,
) -> None:
    first = await beat(engine, "a")
    await beat(engine, "b")

    answer = await beat(engine, "a", generation=first.generation, wait_ms=30_000)

    assert answer.assignment == {"orders": (0,)}


async def test_a_heartbeat_that_waits_in_vain_is_answered_with_what_it_knew(
    engine: LocalEngine,
) -> None:
    first = await beat(engine, "a")

    assert await beat(engine, "a", generation=first.generation, wait_ms=5) == first


async def test_members_of_other_groups_are_left_alone(engine: LocalEngine) -> None:
    first = await beat(engine, "a")
    waiting = await parked_beat(engine, "a", first.generation)

    await beat(engine, "b", group="h")
    await engine.acquire_locks("g", "a", [FIRST])

    assert engine.status().parked == 1
    await engine.leave("g", "a")
    await answered(waiting)


async def test_more_queues_are_told_to_who_waits(engine: LocalEngine) -> None:
    first = await beat(engine, "a")
    waiting = await parked_beat(engine, "a", first.generation)

    publish(engine, queue_count=3)

    assert (await answered(waiting)).assignment == {"orders": (0, 1, 2)}


async def test_a_member_that_leaves_while_it_waits_is_told_that_it_has_nothing(
    engine: LocalEngine,
) -> None:
    first = await beat(engine, "a")
    waiting = await parked_beat(engine, "a", first.generation)

    await engine.leave("g", "a")

    answer = await answered(waiting)
    assert (answer.generation, answer.assignment) == (first.generation, {})
    assert engine.members() == []


async def test_a_group_that_is_disabled_turns_away_who_waits(engine: LocalEngine) -> None:
    first = await beat(engine, "a")
    waiting = await parked_beat(engine, "a", first.generation)
    pulling = await parked_pull(engine, generation=first.generation)

    publish(engine, GroupSpec(name="g", enabled=False))

    for refused in (waiting, pulling):
        with pytest.raises(NotPermitted):
            await asyncio.wait_for(refused, timeout=25)


async def test_a_member_whose_connection_breaks_is_gone_after_the_grace(
    engine: LocalEngine, clock: ManualClock
) -> None:
    first = await beat(engine, "a")
    waiting = await parked_beat(engine, "a", first.generation)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    clock.advance(CONFIG.disconnect_grace_ms - 1)
    before = engine.rebalance(reason="beat")

    clock.advance(1)
    (after,) = engine.rebalance(reason="beat")

    assert before == []
    assert (after.reason, after.assignment) == ("expiry", {})


async def test_silence_is_noticed_without_anybody_asking(opened: Opener) -> None:
    engine = await opened(EngineConfig(segment_bytes=64 * MIB, member_timeout_ms=1_000))
    await beat(engine, "a")
    second = await beat(engine, "b")

    answer = await asyncio.wait_for(
        beat(engine, "b", generation=second.generation, wait_ms=30_000), timeout=5
    )

    assert answer.assignment == {"orders": (0, 1)}
    assert [line.reason for line in engine.rebalances()] == ["expiry"]


async def test_members_of_a_large_group_all_get_their_share_in_time(opened: Opener) -> None:
    engine = await opened()
    publish(engine, queue_count=64)

    for number in range(64):
        await beat(engine, f"c{number:02}")
    answer = await beat(engine, "c63")
    while answer.assignment != {"orders": (63,)}:
        answer = await asyncio.wait_for(
            beat(engine, "c63", generation=answer.generation, wait_ms=30_000), timeout=5
        )

    assert {len(s.assignment["orders"]) for s in engine.members()} == {1}
    assert engine.status().rebalances < 64


async def test_an_answered_assignment_is_on_the_disk(engine: LocalEngine) -> None:
    answer = await beat(engine, "a")

    (line,) = engine.history(-1).rebalances

    assert line.generation == answer.generation
    assert engine.status().synced_offset == engine.status().written_offset


async def test_too_many_parked_heartbeats_are_turned_away_and_stay_members(
    opened: Opener, clock: ManualClock
) -> None:
    config = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0, parked_max=1)
    engine = await opened(config, clock)
    await beat(engine, "a")
    generation = (await beat(engine, "b")).generation
    waiting = await parked_beat(engine, "a", generation)

    with pytest.raises(Overloaded):
        await beat(engine, "b", generation=generation, wait_ms=30_000)

    clock.advance(CONFIG.disconnect_grace_ms)
    assert engine.rebalance(reason="beat") == []
    await engine.leave("g", "b")
    await answered(waiting)


async def test_closing_answers_members_that_wait(engine: LocalEngine) -> None:
    first = await beat(engine, "a")
    waiting = await parked_beat(engine, "a", first.generation)

    await engine.close()

    assert (await answered(waiting)).generation == first.generation
    with pytest.raises(Stopping):
        await beat(engine, "a")


async def test_a_restart_asks_nobody_to_move(opened: Opener) -> None:
    engine = await opened()
    await beat(engine, "a")
    before = await beat(engine, "b")
    await engine.close()

    again = await opened()
    waiting = await parked_beat(again, "b", before.generation)

    assert [state.client_id for state in again.members()] == ["a", "b"]
    assert again.status().rebalances == 0
    await again.leave("g", "a")
    assert (await answered(waiting)).generation > before.generation


async def test_a_parked_pull_is_answered_when_its_queue_goes_to_another(
    engine: LocalEngine,
) -> None:
    generation = (await beat(engine, "b")).generation
    waiting = await parked_pull(engine, client_id="b", generation=generation)

    await beat(engine, "a")

    with pytest.raises(StaleGeneration):
        await asyncio.wait_for(waiting, timeout=25)


async def test_a_parked_pull_outlives_a_rebalance_that_leaves_its_queue(
    engine: LocalEngine,
) -> None:
    generation = (await beat(engine, "a")).generation
    waiting = await parked_pull(engine, generation=generation)

    await beat(engine, "b")
    await send(engine, 1)

    assert (await asyncio.wait_for(waiting, timeout=25)).status is PullStatus.FOUND


async def test_a_parked_pull_is_answered_when_its_lock_is_taken(engine: LocalEngine) -> None:
    epoch = (await engine.acquire_locks("g", "a", [FIRST])).locked[0].epoch
    waiting = await parked_pull(engine, epoch=epoch)

    engine.release_lock("g", FIRST, reason="stuck")

    with pytest.raises(LockLost):
        await asyncio.wait_for(waiting, timeout=25)


async def test_a_parked_pull_is_looked_at_even_if_nothing_happens(
    opened: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_LOOK_AGAIN_MS", 5)
    engine = await opened(clock=clock)
    epoch = (await engine.acquire_locks("g", "a", [FIRST])).locked[0].epoch
    waiting = await parked_pull(engine, epoch=epoch)

    clock.advance(CONFIG.queue_lock_ms)

    with pytest.raises(LockLost, match="expired"):
        await asyncio.wait_for(waiting, timeout=25)


async def test_messages_of_other_tags_do_not_wake_a_parked_pull(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = await parked_pull(engine, group="", client_id="", filter="B")
    looks: list[PullRequest] = []
    pull = engine._host.broker.pull

    def counted(request: PullRequest, *, wait: bool = True) -> PullResult:
        looks.append(request)
        return pull(request, wait=wait)

    monkeypatch.setattr(engine._host.broker, "pull", counted)
    for _ in range(20):
        await send(engine, 3, tag="A")
    assert looks == []
    await send(engine, 1, tag="B")

    found = await asyncio.wait_for(waiting, timeout=25)
    assert (found.status, len(found.block), found.next_offset) == (PullStatus.FOUND, 1, 61)
    assert len(looks) <= 2


async def test_a_pull_that_passed_over_messages_says_how_far(engine: LocalEngine) -> None:
    await send(engine, 5, tag="A")
    request = PullRequest(topic="orders", queue=0, queue_offset=0, filter="B", wait_ms=5)

    found = await engine.pull(request)

    assert (found.status, found.next_offset) == (PullStatus.NO_MATCHED_MSG, 5)


async def test_a_new_owner_waits_until_the_old_one_has_committed(engine: LocalEngine) -> None:
    publish(engine, GroupSpec(name="g", access_lock_ms=30_000))
    generation = (await beat(engine, "b")).generation
    await send(engine, 3)
    asked = PullRequest(
        topic="orders", queue=0, queue_offset=0, group="g", client_id="b", generation=generation
    )
    assert (await engine.pull(asked)).next_offset == 3
    generation = (await beat(engine, "a")).generation
    waiting = await parked_pull(engine, generation=generation)

    done = OffsetCommit(topic="orders", queue=0, queue_offset=3)
    await engine.commit_offsets("g", [done], client_id="b", generation=generation)

    corrected = await asyncio.wait_for(waiting, timeout=25)
    assert (corrected.status, corrected.next_offset) == (PullStatus.NO_NEW_MSG, 3)


async def test_a_receive_that_a_lock_holds_back_goes_on_when_it_is_released(
    engine: LocalEngine,
) -> None:
    await send(engine, 1)
    await engine.acquire_locks("g", "a", [FIRST, SECOND])
    asked = ReceiveRequest(group="g", topics=("orders",), client_id="b", wait_ms=30_000)
    waiting = asyncio.create_task(engine.receive(asked))
    await until_parked(engine, 1)

    await engine.release_locks("g", "a", [FIRST])

    (lease,) = (await asyncio.wait_for(waiting, timeout=25)).leases
    assert len(lease.block) == 1


async def test_a_settlement_with_a_stale_epoch_settles_nothing(
    engine: LocalEngine, clock: ManualClock
) -> None:
    await send(engine, 1)
    stale = (await engine.acquire_locks("g", "a", [FIRST])).locked[0].epoch
    asked = ReceiveRequest(group="g", topics=("orders",), client_id="a", invisible_ms=600_000)
    (lease,) = (await engine.receive(asked)).leases
    clock.advance(CONFIG.queue_lock_ms)
    current = (await engine.acquire_locks("g", "b", [FIRST])).locked[0].epoch

    for settle in (engine.ack, engine.nack):
        with pytest.raises(LockLost):
            await settle("g", [f"{lease.token}:0"], epoch=stale)
    with pytest.raises(LockLost):
        await engine.extend("g", [f"{lease.token}:0"], invisible_ms=60_000, epoch=stale)

    (result,) = await engine.ack("g", [f"{lease.token}:0"], epoch=current)
    assert result.outcome is Settled.OK


async def test_one_bad_commit_of_several_changes_nothing(engine: LocalEngine) -> None:
    await send(engine, 2)
    good = OffsetCommit(topic="orders", queue=0, queue_offset=2)
    far = OffsetCommit(topic="orders", queue=1, queue_offset=1)
    stale = OffsetCommit(topic="orders", queue=1, queue_offset=0, epoch=1)

    with pytest.raises(OffsetOutOfRange):
        await engine.commit_offsets("g", [good, far])
    with pytest.raises(LockLost):
        await engine.commit_offsets("g", [good, stale])

    assert engine.group_progress("g") == []


async def test_a_group_begins_once_where_it_was_told_to(
    engine: LocalEngine, opened: Opener
) -> None:
    await send(engine, 3)

    begun = await engine.begin_offsets("g", [FIRST, SECOND], consume_from=ConsumeFrom.LAST)
    await send(engine, 2)
    await engine.close()
    again = await (await opened()).begin_offsets("g", [FIRST], consume_from=ConsumeFrom.FIRST)

    assert begun == [
        BeginOffset(topic="orders", queue=0, queue_offset=3, is_new=True),
        BeginOffset(topic="orders", queue=1, queue_offset=0, is_new=True),
    ]
    assert again == [BeginOffset(topic="orders", queue=0, queue_offset=3, is_new=False)]


async def test_the_first_message_since_a_time_is_found(
    engine: LocalEngine, clock: ManualClock
) -> None:
    await send(engine, 2)
    clock.advance(1_000)
    later_ms = clock.wall_ms()
    await send(engine, 2)

    assert await engine.offset_at("orders", 0, later_ms) == 2
    assert await engine.offset_at("orders", 0, later_ms - 1) == 2
    assert await engine.offset_at("orders", 0, 0) == 0
    assert await engine.offset_at("orders", 0, later_ms + 1) == 4
    assert await engine.offset_at("orders", 1, 0) == 0


async def test_times_and_begins_of_unknown_queues_are_refused(engine: LocalEngine) -> None:
    with pytest.raises(UnknownTopic):
        await engine.offset_at("gone", 0, 0)
    with pytest.raises(UnknownQueue):
        await engine.offset_at("orders", 2, 0)
    with pytest.raises(UnknownQueue):
        await engine.begin_offsets("g", [FIRST, QueuePlace(topic="orders", queue=2)])
    with pytest.raises(InvalidArgument):
        await engine.begin_offsets("g", [FIRST], consume_from=ConsumeFrom.TIMESTAMP)
    assert engine.group_progress("g") == []


async def test_a_closed_engine_takes_no_verb_of_groups(engine: LocalEngine) -> None:
    await engine.close()

    for verb in (
        lambda: engine.leave("g", "a"),
        lambda: engine.acquire_locks("g", "a", [FIRST]),
        lambda: engine.release_locks("g", "a", [FIRST]),
        lambda: engine.begin_offsets("g", [FIRST]),
        lambda: engine.offset_at("orders", 0, 0),
    ):
        with pytest.raises(Stopping):
            await verb()
    with pytest.raises(Stopping):
        engine.rebalance(reason="beat")
    with pytest.raises(Stopping):
        engine.release_lock("g", FIRST, reason="stuck")
