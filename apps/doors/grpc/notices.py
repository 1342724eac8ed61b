"""What clients are told without having asked, each by its stream. Knows streams, no session."""

import asyncio
import contextlib
from collections.abc import Sequence

import grpc

from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.sessions import Stream

# A client that does not read its stream is not waited for.
_WRITE_S = 5.0


class Notices:
    """Commands on their way to clients; nobody waits for them."""

    def __init__(self) -> None:
        """Tell nothing yet."""
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, stream: Stream, commands: Sequence[pb.TelemetryCommand]) -> None:
        """Write commands to a stream in order; one that breaks or is not read is left alone."""
        task = asyncio.create_task(self._write(stream, commands))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Tell nothing any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, stream: Stream, commands: Sequence[pb.TelemetryCommand]) -> None:
        with contextlib.suppress(grpc.aio.BaseError, asyncio.InvalidStateError, TimeoutError):
            async with asyncio.timeout(_WRITE_S):
                for command in commands:
                    await stream.send(command)
