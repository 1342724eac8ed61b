"""Writes to one telemetry stream: one at a time, whatever becomes of who asked for them."""

import asyncio

import grpc
import pytest

from apps.access.gate import Rights
from apps.doors.grpc.calls import GrpcDoor
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.service import _telemetry
from apps.doors.grpc.sessions import Stream
from apps.doors.http.app import create_door
from apps.doors.http.settings import DoorSettings
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from tests.doors.grpc.client import a_producer
from tests.doors.grpc.policies import Policy, signed

COMMAND = pb.TelemetryCommand(status=pb.Status(code=pb.OK))


class SlowStream:
    """What gRPC gives a method, with writes that take until the test lets them through.

    As gRPC does, it refuses what is begun before a write is through.
    """

    def __init__(self) -> None:
        self.written: list[pb.TelemetryCommand] = []
        self.ended: grpc.StatusCode | None = None
        self.begun = asyncio.Event()
        self._through = asyncio.Event()
        self._busy = False

    async def write(self, command: pb.TelemetryCommand) -> None:
        self._begin()
        self.begun.set()
        await self._through.wait()
        self._busy = False
        self.written.append(command)

    async def abort(self, code: grpc.StatusCode, _details: str) -> None:
        self._begin()
        self.ended = code

    def let_through(self) -> None:
        self._through.set()

    def _begin(self) -> None:
        assert not self._busy, "gRPC takes nothing while a write is under way"
        assert self.ended is None, "gRPC takes nothing after the end"
        self._busy = True

    def invocation_metadata(self) -> list[tuple[str, str]]:
        return list(signed("shop").items())

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def time_remaining(self) -> None:
        return None


async def test_a_write_goes_on_when_its_writer_is_cancelled_and_the_next_waits_for_it() -> None:
    slow = SlowStream()
    stream = Stream(slow.write)
    first = asyncio.ensure_future(stream.send(COMMAND))
    await slow.begun.wait()

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.ensure_future(stream.send(COMMAND))
    await asyncio.sleep(0)
    assert not second.done()
    slow.let_through()
    await second

    assert len(slow.written) == 2


async def test_who_gives_up_before_its_turn_writes_nothing() -> None:
    slow = SlowStream()
    stream = Stream(slow.write)
    first = asyncio.ensure_future(stream.send(COMMAND))
    await slow.begun.wait()
    second = asyncio.ensure_future(stream.send(COMMAND))
    await asyncio.sleep(0)

    second.cancel()
    slow.let_through()
    await first

    with pytest.raises(asyncio.CancelledError):
        await second
    assert len(slow.written) == 1


async def test_a_write_that_fails_fails_for_its_writer_and_for_nobody_else() -> None:
    failures = [grpc.aio.UsageError("broken")]

    async def write(_command: pb.TelemetryCommand) -> None:
        if failures:
            raise failures.pop()

    stream = Stream(write)

    with pytest.raises(grpc.aio.UsageError):
        await stream.send(COMMAND)
    await stream.send(COMMAND)


async def test_a_stream_whose_right_is_revoked_in_the_middle_of_a_write_ends_after_it(
    engine: LocalEngine, clock: ManualClock, policy: Policy
) -> None:
    """A client has a message before gRPC's word that it was written has come back."""
    shared = create_door(DoorSettings(auth="on"), clock=clock, gate=policy.gate)
    door = GrpcDoor(door=shared, engine_of=lambda: engine)
    slow = SlowStream()

    async def commands():  # type: ignore[no-untyped-def]
        yield pb.TelemetryCommand(settings=a_producer("orders"))
        await asyncio.Event().wait()

    method = asyncio.ensure_future(_telemetry(door)(commands(), slow))
    async with asyncio.timeout(20):
        await slow.begun.wait()
        (session,) = door.sessions
        assert isinstance(session.rights, Rights)

        policy.revoke("shop")
        while session.streams:
            await asyncio.sleep(0)
        assert slow.ended is None
        slow.let_through()
        await method

    assert [command.WhichOneof("command") for command in slow.written] == ["settings"]
    assert slow.ended is grpc.StatusCode.INVALID_ARGUMENT
