"""Dead letters from the engine itself to rows, and back: what a job sends is received again."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from apps.bridge import engine as bridge
from apps.deadletters import selectors, services
from apps.deadletters.models import DeadLetter, JobState, ResendJob
from apps.deadletters.projection import DeadLetterProjector
from apps.deadletters.records import records_of
from apps.engine.clock import SystemClock
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import Record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.types import AckMode, ReceiveRequest, RecordBatch
from apps.topics import services as topics
from tests.web.deadletters.letters import in_database, in_thread, states
from tests.web.group_values import NOW_MS

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0)


class Broker:
    """An engine with a projector beside it, as the broker's process has them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def start(self) -> None:
        self.engine = await LocalEngine.open(self.path, CONFIG)
        bridge.install(self.engine, asyncio.get_running_loop())
        self.projector = DeadLetterProjector(SystemClock())

    async def stop(self) -> None:
        bridge.remove()
        await self.engine.close()

    async def project(self) -> None:
        look = self.projector.look(self.engine)
        if look is not None:
            await self.projector.project(look, self.engine, in_database)

    async def send(self, count: int) -> None:
        said = {"KEYS": "k1", "TAGS": "red"}
        records = [
            encode_record(
                topic=b"orders",
                queue=0,
                body=f"body {number}".encode(),
                properties=encode_properties({**said, "UNIQ_KEY": f"ID{number}"}),
            )
            for number in range(count)
        ]
        batch = RecordBatch(
            topic="orders",
            queue=0,
            payload=bytearray(b"".join(records)),
            sizes=np.array([len(record) for record in records], dtype=np.int32),
        )
        await self.engine.append([batch], ack=AckMode.SYNC)

    async def receive(self) -> list[tuple[str, Record]]:
        """Receive what there is for the group: handles and records."""
        result = await self.engine.receive(
            ReceiveRequest(group="g", topics=("orders",), client_id="c")
        )
        return [
            (f"{lease.token}:{record.queue_offset}", record)
            for lease in result.leases
            for record in records_of(lease.block)
        ]

    async def kill(self, reason: str) -> int:
        """Receive what there is and give it back as dead; return how much that was."""
        found = await self.receive()
        handles = [handle for handle, _ in found]
        await self.engine.nack("g", handles, delay_level=-1, reason=reason)
        return len(handles)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path)
    await broker.start()
    await in_thread(partial(topics.create_or_change_topic, name="orders"))
    yield broker
    await broker.stop()


def ask(**wish: object) -> ResendJob:
    return services.request_resend(
        group="g",
        letters=DeadLetter.objects.all(),
        criteria={"all": True},
        wish=services.Wish(**wish),  # type: ignore[arg-type]
        by="anna",
    )


async def test_a_message_that_died_has_a_row_and_a_body(broker: Broker) -> None:
    await broker.send(2)

    assert await broker.kill("out of stock") == 2
    await broker.project()

    row = await in_thread(lambda: DeadLetter.objects.get(queue_offset=1))
    body = await in_thread(partial(selectors.body_of, row))
    assert (row.group, row.origin_topic, row.origin_queue, row.origin_offset) == (
        "g",
        "orders",
        0,
        1,
    )
    assert (row.message_id, row.keys, row.tag) == ("ID1", "k1", "red")
    assert (row.attempts, row.reason) == (1, "out of stock")
    assert [(entry[0], entry[2], entry[3]) for entry in row.history] == [(1, "out of stock", "c")]
    assert body is not None
    assert body.body == b"body 1"


@pytest.mark.parametrize("target", [None, "%RETRY%g"])
async def test_what_a_job_sends_is_received_again_once(broker: Broker, target: str | None) -> None:
    await broker.send(3)
    await broker.kill("boom")
    await broker.project()
    job = await in_thread(partial(ask, target=target))

    await in_thread(partial(services.send_some, now_ms=NOW_MS))

    await in_thread(job.refresh_from_db)
    assert (job.state, job.sent_count) == (JobState.DONE, 3)
    assert await in_thread(states) == ["resent"] * 3
    found = [record for _, record in await broker.receive()]
    assert sorted(record.body for record in found) == [b"body 0", b"body 1", b"body 2"]
    assert {record.topic for record in found} == {target or "orders"}
    assert {record.properties["RESENT_BY"] for record in found} == {"anna"}
    assert {record.reconsume_times for record in found} == {0}
    assert await broker.receive() == []


async def test_a_job_that_was_cut_off_before_its_rows_sends_nothing_twice(broker: Broker) -> None:
    await broker.send(2)
    await broker.kill("boom")
    await broker.project()
    await in_thread(ask)
    first = await broker.engine.resend("g", [0, 1], by="anna")

    await broker.stop()
    await broker.start()
    await in_thread(partial(services.send_some, now_ms=NOW_MS))

    job = await in_thread(ResendJob.objects.get)
    assert [result.outcome.value for result in first] == ["sent", "sent"]
    assert (job.state, job.sent_count, job.already_count) == (JobState.DONE, 0, 2)
    assert len(await broker.receive()) == 2


async def test_a_letter_that_fails_again_dies_again_as_a_new_one(broker: Broker) -> None:
    await broker.send(1)
    await broker.kill("boom")
    await broker.project()
    await in_thread(ask)
    await in_thread(partial(services.send_some, now_ms=NOW_MS))

    assert await broker.kill("boom again") == 1
    await broker.project()

    assert await in_thread(states) == ["resent", "waiting"]
    row = await in_thread(lambda: DeadLetter.objects.get(queue_offset=1))
    assert (row.reason, row.attempts, row.message_id) == ("boom again", 1, "ID0")


async def test_a_topic_that_is_gone_fails_each_letter_by_itself(broker: Broker) -> None:
    await broker.send(2)
    await broker.kill("boom")
    await broker.project()
    await in_thread(partial(topics.delete_topic, name="orders"))
    job = await in_thread(ask)

    await in_thread(partial(services.send_some, now_ms=NOW_MS))

    await in_thread(job.refresh_from_db)
    assert (job.state, job.failed_count) == (JobState.DONE, 2)
    assert await in_thread(states) == ["waiting"] * 2
    assert all(await in_thread(lambda: list(DeadLetter.objects.values_list("trouble", flat=True))))


async def test_a_letter_whose_message_was_deleted_is_gone(broker: Broker) -> None:
    await broker.send(3)
    await broker.kill("boom")
    await broker.project()
    retention = broker.engine._host.broker.retention
    assert retention.hide({("%DLQ%g", 0): 2})

    await broker.project()

    assert await in_thread(states) == ["gone", "gone", "waiting"]
    row = await in_thread(lambda: DeadLetter.objects.get(queue_offset=0))
    assert await in_thread(partial(selectors.body_of, row)) is None
