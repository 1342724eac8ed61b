"""What the control verbs promise, wherever the engine lives. Knows the engine's verbs only."""

import asyncio
import inspect
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest

from apps.engine.api import EngineAPI, EngineControl
from apps.engine.codec.record import encode_record
from apps.engine.errors import UnknownTopic
from apps.engine.retentiontypes import Cleaned
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import (
    PERM_READ,
    AckMode,
    CatalogSnapshot,
    ClientSeen,
    ConsumeFrom,
    GroupProgress,
    GroupSpec,
    QueueRange,
    ReceiveRequest,
    ReceiveResult,
    RecordBatch,
    Strategy,
    TopicSpec,
    TopicTotal,
    TopicType,
)

_Answer = TypeVar("_Answer")

CATALOG = CatalogSnapshot(
    version=7,
    topics={
        "orders": TopicSpec(name="orders", queue_count=2, type=TopicType.FIFO),
        "bills": TopicSpec(name="bills", queue_count=1, perm=PERM_READ),
    },
)
NO_BILLS = [QueueRange(topic="bills", queue=0, min_offset=0, max_offset=0)]


SETTINGS = CatalogSnapshot(
    version=8,
    topics={
        "orders": TopicSpec(name="orders", queue_count=4, write_queue_count=2),
        "bills": TopicSpec(name="bills", queue_count=1, perm=PERM_READ),
    },
    groups={
        "g": GroupSpec(
            name="g",
            ordered=True,
            strategy=Strategy.CONFIG,
            fixed={"a": {"orders": (0, 1)}},
            rooms=("north",),
            inner=Strategy.AVG_BY_CIRCLE,
            consume_from=ConsumeFrom.TIMESTAMP,
            consume_from_ms=1_700_000_000_000,
            retry_max=3,
            access_lock_ms=30_000,
        ),
        "h": GroupSpec(name="h", enabled=False),
    },
)


async def send(engine: EngineAPI, *, queue: int, count: int) -> None:
    """Store messages in a queue of the topic `orders`."""
    record = encode_record(topic=b"orders", queue=queue, body=b"x")
    batch = RecordBatch(
        topic="orders",
        queue=queue,
        payload=bytearray(record * count),
        sizes=np.array([len(record)] * count, dtype=np.int32),
    )
    await engine.append([batch], ack=AckMode.SYNC)


async def receive(engine: EngineAPI, *, client_id: str = "c", group: str = "g") -> None:
    """Receive one message of the topic `orders`, without waiting for one."""
    request = ReceiveRequest(group=group, topics=("orders",), messages_max=1, client_id=client_id)
    await engine.receive(request)


async def parked(engine: EngineAPI) -> "asyncio.Task[ReceiveResult]":
    """Begin a receive of the topic `orders`, and return it once it waits in the engine."""
    request = ReceiveRequest(group="g", topics=("orders",), wait_ms=30_000, client_id="c")
    receiving = asyncio.create_task(engine.receive(request))
    while engine.status().parked == 0:  # noqa: ASYNC110  The engine tells nobody.
        await asyncio.sleep(0)
    return receiving


class ControlFixtures:
    """What a contract of control verbs is given."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the clock the engine runs on."""
        return ManualClock()

    @pytest.fixture
    def engine(self, clock: ManualClock) -> EngineAPI:
        """Return a new engine, to bring about what is asked for."""
        raise NotImplementedError

    @pytest.fixture
    def control(self, engine: EngineAPI) -> EngineControl:
        """Return what is tested: the verbs of that engine."""
        raise NotImplementedError

    async def ask(self, question: Callable[[], _Answer]) -> _Answer:
        """Put a question to `control`, in a thread where it would wait for the engine's loop."""
        return question()


class EngineControlContract(ControlFixtures):
    """Inherit, supply `engine` and `control`, and the verbs' promises are tested on it."""

    async def test_a_new_engine_knows_nothing(self, control: EngineControl) -> None:
        assert await self.ask(lambda: control.catalog) == CatalogSnapshot()
        assert await self.ask(control.topic_ranges) == {}
        assert await self.ask(control.group_progress) == []
        assert await self.ask(control.clients) == []

    async def test_a_published_catalog_is_obeyed(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        await self.ask(lambda: control.publish_catalog(CATALOG))

        assert engine.catalog == CATALOG
        assert await self.ask(lambda: control.catalog) == CATALOG

    async def test_what_was_decided_about_groups_is_part_of_the_catalog(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        await self.ask(lambda: control.publish_catalog(SETTINGS))

        assert engine.catalog == SETTINGS
        assert await self.ask(lambda: control.catalog) == SETTINGS

    async def test_an_older_catalog_is_ignored(self, control: EngineControl) -> None:
        await self.ask(lambda: control.publish_catalog(CATALOG))

        await self.ask(lambda: control.publish_catalog(CatalogSnapshot(version=6)))

        assert await self.ask(lambda: control.catalog) == CATALOG

    async def test_ranges_tell_what_each_queue_holds(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        engine.publish_catalog(CATALOG)
        await send(engine, queue=1, count=3)
        orders = [
            QueueRange(topic="orders", queue=0, min_offset=0, max_offset=0),
            QueueRange(topic="orders", queue=1, min_offset=0, max_offset=3),
        ]

        assert await self.ask(lambda: control.queue_ranges("orders")) == orders
        assert await self.ask(control.topic_ranges) == {"orders": orders, "bills": NO_BILLS}

    async def test_totals_sum_up_the_queues_of_each_topic(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        engine.publish_catalog(CATALOG)
        await send(engine, queue=0, count=2)
        before = await self.ask(control.topic_totals)
        await send(engine, queue=1, count=3)

        assert before["orders"] == TopicTotal(sent=2, held=2)
        assert await self.ask(control.topic_totals) == {
            "orders": TopicTotal(sent=5, held=5),
            "bills": TopicTotal(sent=0, held=0),
        }

    async def test_ranges_of_some_topics_leave_out_the_unknown(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        engine.publish_catalog(CATALOG)

        found = await self.ask(lambda: control.topic_ranges({"bills", "gone"}))

        assert found == {"bills": NO_BILLS}
        assert await self.ask(lambda: control.topic_ranges(())) == {}

    async def test_an_unknown_topic_is_refused_by_its_name(self, control: EngineControl) -> None:
        with pytest.raises(UnknownTopic, match="gone"):
            await self.ask(lambda: control.queue_ranges("gone"))

    async def test_progress_is_told_by_group(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        engine.publish_catalog(CATALOG)
        await send(engine, queue=0, count=2)
        await receive(engine, group="g")
        await receive(engine, group="h")

        of_one = await self.ask(lambda: control.group_progress("g"))
        of_all = await self.ask(control.group_progress)

        assert of_one[0] == GroupProgress(
            group="g", topic="orders", queue=0, committed=0, delivered=1, in_flight=1, max_offset=2,
            ready=1,
        )  # fmt: skip
        assert [row.group for row in of_all] == ["g", "g", "h", "h"]

    async def test_a_client_is_known_from_its_receive_on(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        engine.publish_catalog(CATALOG)
        first_ms = clock.wall_ms()
        await receive(engine)
        clock.advance(5_000)
        await receive(engine)
        clock.advance(5_000)
        await receive(engine, client_id="")

        seen = ClientSeen(
            group="g",
            client_id="c",
            topics=("orders",),
            first_seen_ms=first_ms,
            last_seen_ms=first_ms + 5_000,
            is_waiting=False,
        )
        assert await self.ask(control.clients) == [seen]
        assert await self.ask(lambda: control.clients("g")) == [seen]
        assert await self.ask(lambda: control.clients("h")) == []

    async def test_a_receive_that_is_refused_makes_nobody_known(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        with pytest.raises(UnknownTopic):
            await receive(engine)

        assert await self.ask(control.clients) == []

    async def test_a_client_that_waits_is_seen_now_and_never_silent(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        engine.publish_catalog(CATALOG)
        receiving = await parked(engine)
        clock.advance(25_000)

        (waiting,) = await self.ask(control.clients)
        gone = await self.ask(lambda: control.forget_silent_clients(1_000))
        await send(engine, queue=0, count=1)
        await receiving

        (answered,) = await self.ask(control.clients)
        assert (waiting.is_waiting, waiting.last_seen_ms) == (True, clock.wall_ms())
        assert gone == []
        assert (answered.is_waiting, answered.last_seen_ms) == (False, clock.wall_ms())

    async def test_a_client_that_leaves_while_it_waits_was_seen_until_then(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        engine.publish_catalog(CATALOG)
        receiving = await parked(engine)
        clock.advance(25_000)

        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)

        (client,) = await self.ask(control.clients)
        assert (client.is_waiting, client.last_seen_ms) == (False, clock.wall_ms())

    async def test_silent_clients_are_forgotten_and_told_once(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        engine.publish_catalog(CATALOG)
        await receive(engine, client_id="old")
        clock.advance(120_001)
        await receive(engine, client_id="young")

        gone = await self.ask(lambda: control.forget_silent_clients(120_000))

        assert [client.client_id for client in gone] == ["old"]
        assert [client.client_id for client in await self.ask(control.clients)] == ["young"]
        assert await self.ask(lambda: control.forget_silent_clients(120_000)) == []

    async def test_the_status_is_the_engines_own(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        engine.publish_catalog(CATALOG)
        await send(engine, queue=0, count=2)

        status = await self.ask(control.status)

        assert status.appended_messages == 2
        assert status.recovery == engine.status().recovery
        assert (status.store_id, status.epoch) == (engine.status().store_id, 1)

    async def test_a_cleaning_says_what_went(self, control: EngineControl) -> None:
        def clean() -> object:
            return control.clean_now()

        found = await self.ask(clean)
        if inspect.isawaitable(found):
            found = await found

        assert found == Cleaned(log_start=0, deleted_segments=0, deleted_bytes=0)
        status = await self.ask(control.status)
        assert status.retention is not None
        assert 0 < status.retention.disk_used < 1
        assert status.retention.blocked_by == ()
