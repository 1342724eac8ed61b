"""Transactions: half messages, their ends, and who is asked about those that have none."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import pytest

from apps.doors.grpc.calls import GrpcDoor
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.server import GrpcServer
from apps.doors.grpc.sessions import Stream
from apps.doors.grpc.settings import GrpcSettings
from apps.doors.http.app import create_door
from apps.doors.http.settings import DoorSettings
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from tests.doors.grpc.client import (
    ORDERS,
    GrpcClient,
    Telemetry,
    a_message,
    a_producer,
    bodies,
)

IMMUNITY_MS = 6_000
INTERVAL_MS = 30_000


async def begin(client: GrpcClient, body: bytes = b"half", **values: object) -> str:
    answer = await client.send(
        a_message(body, message_id="half-1", message_type=pb.TRANSACTION, tag="t", **values)
    )
    assert answer.status.code == pb.OK, answer.status.message
    assert answer.entries[0].message_id == "half-1"
    transaction_id: str = answer.entries[0].transaction_id
    return transaction_id


async def end(
    client: GrpcClient,
    transaction_id: str,
    resolution: pb.TransactionResolution = pb.COMMIT,
    topic: pb.Resource = ORDERS,
) -> int:
    answer = await client.call(
        "EndTransaction",
        pb.EndTransactionRequest(
            topic=topic,
            message_id="half-1",
            transaction_id=transaction_id,
            resolution=resolution,
            source=pb.SOURCE_CLIENT,
        ),
    )
    code: int = answer.status.code
    return code


async def asked(
    telemetry: Telemetry, clock: ManualClock, engine: LocalEngine
) -> pb.RecoverOrphanedTransactionCommand:
    """Return what a client is asked next; time goes by until it is."""
    reading = asyncio.ensure_future(telemetry.command())
    while not reading.done():
        clock.advance(1_000)
        engine.check_now("")  # Sets the engine's alarm by the clock of the test.
        await asyncio.sleep(0.005)
    command = await reading
    assert command.WhichOneof("command") == "recover_orphaned_transaction_command"
    return command.recover_orphaned_transaction_command


async def test_nobody_sees_a_half_message_until_it_is_committed(client: GrpcClient) -> None:
    transaction_id = await begin(client)
    before = await client.received()

    codes = [await end(client, transaction_id) for _ in range(2)]
    (found,) = await client.received()

    assert (before, codes) == ([], [pb.OK, pb.OK])
    assert (found.body, found.system_properties.message_id) == (b"half", "half-1")
    assert found.system_properties.message_type == pb.TRANSACTION
    assert dict(found.user_properties) == {}


async def test_nobody_ever_sees_what_was_rolled_back(client: GrpcClient) -> None:
    transaction_id = await begin(client)

    code = await end(client, transaction_id, pb.ROLLBACK)

    assert code == pb.OK
    assert await client.received() == []
    assert await end(client, transaction_id, pb.COMMIT) == pb.PRECONDITION_FAILED


async def test_no_decision_keeps_the_half_message(client: GrpcClient, engine: LocalEngine) -> None:
    """Python sends one when its checker does not know."""
    transaction_id = await begin(client)

    code = await end(client, transaction_id, pb.TRANSACTION_RESOLUTION_UNSPECIFIED)

    assert code == pb.OK
    assert engine.transaction_status().pending == 1


@pytest.mark.parametrize("transaction_id", ["", "nonsense", "0.0-00000000", "zz.1"])
async def test_the_id_of_no_transaction_is_refused(client: GrpcClient, transaction_id: str) -> None:
    assert await end(client, transaction_id) == pb.INVALID_TRANSACTION_ID


async def test_a_transaction_is_ended_by_the_name_of_its_topic(client: GrpcClient) -> None:
    transaction_id = await begin(client)

    assert (
        await end(client, transaction_id, topic=pb.Resource(name="normal"))
        == pb.INVALID_TRANSACTION_ID
    )
    assert await client.received() == []


async def test_a_transaction_has_one_message(client: GrpcClient) -> None:
    message = a_message(message_type=pb.TRANSACTION)

    assert (await client.send(message, message)).status.code == pb.BAD_REQUEST


async def test_who_sent_a_half_message_is_asked_about_it(
    client: GrpcClient, engine: LocalEngine, clock: ManualClock
) -> None:
    """A check has all a delivery has: Node parses it in the same way."""
    other = client.named("other@1")
    async with client.telemetry() as mine, other.telemetry() as theirs:
        await theirs.settings(a_producer("orders"))
        await mine.settings(a_producer("orders"))
        transaction_id = await begin(client)

        command = await asked(mine, clock, engine)

        assert command.transaction_id == transaction_id
        assert command.message.body == b"half"
        assert command.message.topic == ORDERS
        assert command.message.system_properties.body_digest.checksum
        assert command.message.system_properties.body_encoding == pb.IDENTITY
        assert command.message.system_properties.message_id == "half-1"
        assert await end(client, command.transaction_id) == pb.OK
    assert bodies(await client.received()) == [b"half"]


async def test_no_check_comes_before_the_time_the_producer_asked_for(
    client: GrpcClient, engine: LocalEngine, clock: ManualClock
) -> None:
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_producer("orders"))
        await begin(client, orphaned_transaction_recovery_duration={"seconds": 600})
        begun_ms = clock.wall_ms()

        await asked(telemetry, clock, engine)

    assert clock.wall_ms() - begun_ms >= 600_000


async def test_another_producer_is_asked_where_the_sender_is_gone(
    client: GrpcClient, engine: LocalEngine, clock: ManualClock
) -> None:
    await begin(client.named("gone@1"))
    consumer = client.named("not-a-producer")
    async with client.telemetry() as telemetry, consumer.telemetry() as silent:
        await silent.settings(pb.Settings(subscription=pb.Subscription()))
        await telemetry.settings(a_producer("orders"))

        command = await asked(telemetry, clock, engine)

    assert command.message.system_properties.message_id == "half-1"


async def test_a_producer_that_sent_to_a_topic_it_did_not_list_is_asked(
    client: GrpcClient, engine: LocalEngine, clock: ManualClock
) -> None:
    """Node lists topics used after its start five minutes later."""
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_producer())
        await begin(client)

        command = await asked(telemetry, clock, engine)

    assert command.message.system_properties.message_id == "half-1"


async def test_a_stream_that_breaks_as_it_is_asked_is_passed_over(
    client: GrpcClient, engine: LocalEngine, clock: ManualClock, door: GrpcDoor
) -> None:
    other = client.named("other@1")
    broken: list[str] = []
    async with client.telemetry() as mine, other.telemetry() as theirs:
        await mine.settings(a_producer("orders"))
        await theirs.settings(a_producer("orders"))
        sender = next(one for one in door.sessions if one.client_id != "other@1")

        async def breaks(_command: pb.TelemetryCommand) -> None:
            broken.append(sender.client_id)
            raise grpc.aio.UsageError("planted")

        (whole,) = sender.streams
        sender.streams[-1] = Stream(breaks)
        await begin(client)

        command = await asked(theirs, clock, engine)
        sender.streams[-1] = whole

    assert broken == [sender.client_id]
    assert command.message.system_properties.message_id == "half-1"


async def test_a_check_nobody_answers_comes_again(
    client: GrpcClient, engine: LocalEngine, clock: ManualClock
) -> None:
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_producer("orders"))
        await begin(client)

        first = await asked(telemetry, clock, engine)
        first_ms = clock.wall_ms()
        second = await asked(telemetry, clock, engine)

    assert first.transaction_id == second.transaction_id
    assert clock.wall_ms() - first_ms >= INTERVAL_MS


async def test_nothing_is_left_running_when_nothing_is_pending(
    client: GrpcClient, engine: LocalEngine, clock: ManualClock, door: GrpcDoor
) -> None:
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_producer("orders", "normal"))
        async with asyncio.timeout(20):
            while len(door.checks):
                await asyncio.sleep(0)
        transaction_id = await begin(client)
        assert len(door.checks) == 1

        await asked(telemetry, clock, engine)
        await end(client, transaction_id)
        engine.publish_catalog(engine.catalog)
        await door.checks.stop()

    assert len(door.checks) == 0


async def test_a_producer_that_comes_back_after_a_restart_is_asked_without_settings(
    opener: Callable[[], Awaitable[LocalEngine]], clock: ManualClock
) -> None:
    """Python opens its stream again and sends its settings up to five minutes later."""
    first = await opener()
    transaction_id = await served(first, clock, begin)
    await first.close()
    second = await opener()

    async def come_back(client: GrpcClient) -> str:
        async with client.telemetry() as telemetry:
            command = await asked(telemetry, clock, second)
            assert await end(client, command.transaction_id) == pb.OK
        assert bodies(await client.received()) == [b"half"]
        found: str = command.transaction_id
        return found

    try:
        assert await served(second, clock, come_back) == transaction_id
    finally:
        await second.close()


async def served(
    engine: LocalEngine, clock: ManualClock, act: Callable[[GrpcClient], Awaitable[str]]
) -> str:
    """Serve an engine by a door of its own while a client does something."""
    door = GrpcDoor(
        door=create_door(DoorSettings(), clock=clock),
        engine_of=lambda: engine,
        settings=GrpcSettings(first_settings_ms=0),
    )
    server = GrpcServer(door)
    port = server.listen("127.0.0.1", 0)
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            return await act(GrpcClient(channel))
    finally:
        await server.stop(grace_s=0)
