"""Groups from the engine itself to rows and answers: members, locks, settings, queues that move.

The fakes of the other tests say what an engine would; here it is the one of the product.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from django.db import connection

from apps.bridge import engine as bridge
from apps.engine.clock import SystemClock
from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.errors import LockLost, NotPermitted, UnknownQueue
from apps.engine.grouptypes import HeartbeatRequest, HeartbeatResult, QueuePlace, Subscription
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.types import AckMode, FilterType, OffsetCommit, PullRequest, RecordBatch
from apps.groups import models
from apps.groups import services as groups
from apps.groups.projection.groups import GroupProjector
from apps.topics import services as topics
from tests.web.conftest import Api

Answer = TypeVar("Answer")

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0)


async def in_thread(work: Callable[[], Answer]) -> Answer:
    """Carry out database work off the loop, and keep no connection for it."""

    def carried_out() -> Answer:
        try:
            return work()
        finally:
            connection.close()

    return await asyncio.to_thread(carried_out)


class Broker:
    """An engine with a projector beside it, as the broker's process has them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def start(self) -> None:
        self.engine = await LocalEngine.open(self.path, CONFIG)
        bridge.install(self.engine, asyncio.get_running_loop())
        self.projector = GroupProjector(SystemClock())

    async def stop(self) -> None:
        bridge.remove()
        await self.engine.close()

    async def project(self) -> None:
        """Write all there is to write, however many looks that takes."""
        while (look := self.projector.look(self.engine)) is not None:
            await in_thread(partial(self.projector.write, look))

    async def join(self, client_id: str, text: str = "*") -> HeartbeatResult:
        wanted = Subscription(topic="orders", filter=text, filter_type=FilterType.TAG)
        request = HeartbeatRequest(group="g", client_id=client_id, subscriptions=(wanted,))
        return await self.engine.heartbeat(request)

    async def send(self, queue: int, count: int = 1) -> None:
        record = encode_record(topic=b"orders", queue=queue, body=b"x")
        batch = RecordBatch(
            topic="orders",
            queue=queue,
            payload=bytearray(record * count),
            sizes=np.array([len(record)] * count, dtype=np.int32),
        )
        await self.engine.append([batch], ack=AckMode.SYNC)

    async def read(self, *offsets: int) -> None:
        """Have an operator set how far the group is in each queue."""
        commits = [
            OffsetCommit(topic="orders", queue=queue, queue_offset=offset)
            for queue, offset in enumerate(offsets)
        ]
        await self.engine.commit_offsets("g", commits)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """Run an engine with one topic of four queues."""
    running = Broker(tmp_path)
    await running.start()
    await in_thread(partial(topics.create_or_change_topic, name="orders", queue_count=4))
    yield running
    await running.stop()


async def assigned() -> list[tuple[int, str]]:
    rows = models.QueueAssignment.objects.values_list("queue", "client_id")
    return await in_thread(lambda: list(rows))


async def get(path: str) -> Any:
    return await in_thread(lambda: Api().get(path).json())


async def test_members_that_come_and_go_are_in_rows_and_answers(broker: Broker) -> None:
    await broker.join("a")
    await broker.join("b", "paid")
    await broker.project()
    both = await assigned()
    body = await get("/groups/g")
    await broker.engine.leave("g", "a")
    await broker.project()
    history = await get("/groups/g/rebalances")

    assert both == [(0, "a"), (1, "a"), (2, "b"), (3, "b")]
    assert body["assignment"] == {"a": {"orders": [0, 1]}, "b": {"orders": [2, 3]}}
    assert [found["topic"] for found in body["conflicts"]] == ["orders"]
    assert await assigned() == [(0, "b"), (1, "b"), (2, "b"), (3, "b")]
    assert [line["reason"] for line in history["items"]] == ["leave", "join", "join"]
    assert [line["queues_moved"] for line in history["items"]] == [2, 2, 4]
    generations = [line["generation"] for line in history["items"]]
    assert generations == sorted(set(generations), reverse=True)


async def test_a_restart_writes_no_line_twice_and_goes_on_with_larger_numbers(
    broker: Broker,
) -> None:
    await broker.join("a")
    await broker.engine.acquire_locks("g", "a", [QueuePlace(topic="orders", queue=0)])
    await broker.project()
    before = await in_thread(
        lambda: (models.Rebalance.objects.get().generation, models.QueueLock.objects.get().epoch)
    )

    await broker.stop()
    await broker.start()
    await broker.join("b")
    await broker.engine.release_locks("g", "a", [QueuePlace(topic="orders", queue=0)])
    await broker.engine.acquire_locks("g", "a", [QueuePlace(topic="orders", queue=0)])
    await broker.project()

    generations = await in_thread(
        lambda: list(
            models.Rebalance.objects.order_by("number").values_list("generation", flat=True)
        )
    )
    lines = await get("/locks/g~orders~0/transitions")
    assert generations[0] == before[0] < generations[1]
    assert [line["change"] for line in lines["items"]] == ["acquired", "released", "acquired"]
    assert lines["items"][0]["epoch"] > lines["items"][2]["epoch"] == before[1]


async def test_a_lock_taken_away_by_an_operator_is_refused_to_its_owner(broker: Broker) -> None:
    place = QueuePlace(topic="orders", queue=0)
    await broker.join("a")
    answer = await broker.engine.acquire_locks("g", "a", [place])
    (grant,) = answer.locked

    released = await in_thread(
        partial(groups.release_lock, group="g", place=place, reason="hangs", expected_owner="a")
    )
    with pytest.raises(LockLost):
        await broker.engine.commit_offsets(
            "g",
            [OffsetCommit(topic="orders", queue=0, queue_offset=0, epoch=grant.epoch)],
            client_id="a",
        )
    # History tells what is on the disk, and this is answered once it is.
    await broker.read(0)
    await broker.project()

    assert released is not None
    lines = await get("/locks/g~orders~0/transitions")
    newest = lines["items"][0]
    assert (newest["change"], newest["previous_owner"], newest["reason"]) == (
        "forced",
        "a",
        "hangs",
    )


async def test_what_is_decided_about_a_group_holds_at_once_and_after_a_restart(
    broker: Broker,
) -> None:
    pull = PullRequest(topic="orders", queue=0, queue_offset=0, group="g", client_id="a")
    await in_thread(partial(groups.put_group, name="g", values={"enabled": False}))
    with pytest.raises(NotPermitted):
        await broker.engine.pull(pull)

    await broker.stop()
    await broker.start()
    with pytest.raises(NotPermitted):
        await broker.engine.pull(pull)
    await in_thread(partial(groups.put_group, name="g", values={"enabled": True}))

    await broker.engine.pull(pull)


async def test_a_topic_shrinks_on_the_engine_when_its_last_message_is_read(broker: Broker) -> None:
    await broker.send(3, 2)
    await broker.join("a")
    await broker.read(0, 0, 0, 1)
    await in_thread(partial(topics.create_or_change_topic, name="orders", queue_count=2))

    with pytest.raises(UnknownQueue):
        await broker.send(3)
    waiting = [(await in_thread(topics.reconcile_catalog)).done for _ in range(4)]
    await broker.read(0, 0, 0, 2)
    closed = await in_thread(topics.reconcile_catalog)

    assert (waiting, closed.done) == ([0] * 4, 1)
    assert broker.engine.catalog.topics["orders"].queue_count == 2
    assert (await broker.join("a")).assignment == {"orders": (0, 1)}


async def test_a_topic_that_grows_with_a_drain_takes_messages_when_all_is_read(
    broker: Broker,
) -> None:
    await broker.send(0, 2)
    await broker.join("a")
    await in_thread(
        partial(topics.create_or_change_topic, name="orders", queue_count=6, drain=True)
    )
    shared_out = (await broker.join("a")).assignment

    with pytest.raises(UnknownQueue):
        await broker.send(5)
    waiting = await in_thread(topics.reconcile_catalog)
    await broker.read(2)
    opened = await in_thread(topics.reconcile_catalog)
    await broker.send(5)

    assert shared_out == {"orders": (0, 1, 2, 3, 4, 5)}
    assert (waiting.done, opened.done) == (0, 1)


async def test_the_clockworks_rebalance_finds_nothing_to_do_where_the_engine_has_done_it(
    broker: Broker,
) -> None:
    await broker.join("a")

    step = await in_thread(groups.rebalance)

    assert step.done == 0


async def test_lag_and_blocked_queues_are_answered_of_the_engine(broker: Broker) -> None:
    await broker.send(0, 5)
    await broker.join("a")
    await broker.read(2)

    lag = await get("/groups/g/lag")
    blocked = await get("/groups/g/blocked")

    rows = {row["queue"]: row for row in lag["items"]}
    assert (rows[0]["lag"], rows[0]["owner"], rows[0]["lock"]) == ("3", "a", None)
    assert (lag["total"]["lag"], len(rows)) == ("3", 4)
    assert blocked["items"] == []
