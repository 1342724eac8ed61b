"""Carries sends over the lane on an asyncio loop, and everything else over HTTP.

As in threads: a connection of the lane is used as one of HTTP is.
"""

import asyncio
from typing import TypeVar, cast

from mqclient.clock import Clock
from mqclient.errors import ConnectFailed, ProtocolViolation
from mqclient.protocol.calls import Call
from mqclient.protocol.endpoint import API, Endpoint
from mqclient.transport.aio import CONNECT_S_MAX, AsyncPool, Connection
from mqclient.transport.refusing import NotUpgraded, Refusals
from mqclient.wire import lane
from mqclient.wire.http1 import Response

T = TypeVar("T")


class LaneConnection(Connection):
    """One connection of the lane, one request at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._reader = self._answers = lane.AnswerReader()
        self._came = b""
        self._head: asyncio.Future[Response] | None = None

    async def upgrade(self, request: bytes) -> Response:
        """Ask for the lane; return the answer's head. Raise ProtocolViolation."""
        assert self._transport is not None
        self._head = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._head
        finally:
            self._head = None

    def data_received(self, data: bytes) -> None:
        """Take bytes; called by the loop."""
        if self._head is None:
            super().data_received(data)
            return
        self._came += data
        try:
            response = lane.handshake(self._came)
        except ProtocolViolation as error:
            if not self._head.done():
                self._head.set_exception(error)
            return
        if response is not None and not self._head.done():
            self._head.set_result(response)

    def connection_lost(self, error: Exception | None) -> None:
        """Take the end; called by the loop."""
        if self._head is not None and not self._head.done():
            self._head.set_exception(ProtocolViolation(f"the connection was lost: {error}"))
        super().connection_lost(error)

    def _buffers(self, call: Call[T]) -> tuple[bytes, ...]:
        assert call.lane is not None
        return lane.send_frame(self._answers.next_number(), call.lane, call.buffers[1:])


class AsyncLanePool(AsyncPool):
    """Connections of the lane, and of HTTP for what it does not carry."""

    _protocol = LaneConnection

    def __init__(self, endpoint: Endpoint, *, clock: Clock, idle_max: int = 64) -> None:
        super().__init__(endpoint, clock=clock, idle_max=idle_max)
        self._http = AsyncPool(endpoint, clock=clock, idle_max=idle_max)
        self._refusals = Refusals(clock)

    async def call(self, call: Call[T], timeout_s: float) -> T:
        """Carry out a call; raise the error of its answer or of the way there."""
        if call.lane is None or not self._refusals.may_ask():
            return await self._http.call(call, timeout_s)
        deadline_s = self._clock.steady_s() + timeout_s
        try:
            return await super().call(call, timeout_s)
        except NotUpgraded as refusal:
            self._refusals.take(refusal)
            left_s = deadline_s - self._clock.steady_s()
            return await self._http.call(call, max(left_s, 0.001))

    async def close(self) -> None:
        """Close idle connections; those in use are closed when their call ends."""
        await super().close()
        await self._http.close()

    async def _open(self, timeout_s: float) -> Connection:
        deadline_s = self._clock.steady_s() + min(timeout_s, CONNECT_S_MAX)
        connection = cast("LaneConnection", await super()._open(timeout_s))
        request = self._endpoint.upgrade(API + lane.PATH, lane.PROTOCOL)
        try:
            async with asyncio.timeout(max(deadline_s - self._clock.steady_s(), 0.001)):
                response = await connection.upgrade(request)
        except TimeoutError as error:
            connection.close()
            # Nothing was sent that could be carried out.
            raise ConnectFailed(f"the lane was not granted within {timeout_s:.3f} s") from error
        except ProtocolViolation as error:
            connection.close()
            raise NotUpgraded(str(error)) from error
        except BaseException:
            connection.close()
            raise
        if response.status != 101:
            connection.close()
            raise NotUpgraded.by(response.status)
        return connection
