"""Carries calls on an asyncio loop. Knows connections, nothing of what is carried."""

import asyncio
import ssl
from collections import deque
from typing import TypeVar, cast

from mqclient.clock import Clock
from mqclient.errors import (
    Closed,
    ConnectFailed,
    ConnectionLost,
    MqError,
    ProtocolViolation,
    TimedOut,
)
from mqclient.protocol.calls import Call
from mqclient.protocol.endpoint import Endpoint
from mqclient.protocol.plans import Pause, Plan
from mqclient.wire.http1 import Response, ResponseReader
from mqclient.wire.lane import AnswerReader

T = TypeVar("T")

CONNECT_S_MAX = 5.0


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._reader: ResponseReader | AnswerReader = ResponseReader()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self.is_open = False

    @property
    def has_answer_begun(self) -> bool:
        """Tell whether any byte of the current answer came."""
        return self._reader.has_begun

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; called by the loop."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Take bytes; called by the loop."""
        answer = self._answer
        if answer is None or answer.done():
            # Bytes nobody asked for: what follows could be taken for the next answer.
            self.close()
            return
        try:
            response = self._reader.feed(data)
        except ProtocolViolation as error:
            self.close()
            answer.set_exception(error)
            return
        if response is not None:
            answer.set_result(response)

    def connection_lost(self, error: Exception | None) -> None:
        """Take the end; called by the loop."""
        self.is_open = False
        answer = self._answer
        if answer is None or answer.done():
            return
        if error is None:
            try:
                answer.set_result(self._reader.feed_end())
                return
            except ProtocolViolation:
                error = EOFError("it ended before the answer was whole")
        answer.set_exception(ConnectionLost(f"the connection was lost: {error}"))

    async def exchange(self, call: Call[T], timeout_s: float) -> Response:
        """Write a request and await its answer; raise ConnectionLost or TimedOut."""
        if self._transport is None or not self.is_open:
            raise ConnectionLost("the connection was lost")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Response] = loop.create_future()
        self._answer = answer
        timer = loop.call_later(timeout_s, self._expire, answer, timeout_s)
        try:
            self._transport.writelines(self._buffers(call))
            return await answer
        finally:
            timer.cancel()
            self._answer = None

    def close(self) -> None:
        """Close the connection, whatever is under way."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _buffers(self, call: Call[T]) -> tuple[bytes, ...]:
        return call.buffers

    @staticmethod
    def _expire(answer: "asyncio.Future[Response]", timeout_s: float) -> None:
        if not answer.done():
            answer.set_exception(TimedOut(f"no whole answer came within {timeout_s:.3f} s"))


class AsyncPool:
    """Connections to one broker, opened as needed. Belongs to one event loop."""

    _protocol: type[Connection] = Connection

    def __init__(self, endpoint: Endpoint, *, clock: Clock, idle_max: int = 64) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._idle_max = idle_max
        self._idle: deque[Connection] = deque()
        self._is_closed = False

    async def call(self, call: Call[T], timeout_s: float) -> T:
        """Carry out a call; raise the error of its answer or of the way there."""
        deadline_s = self._clock.steady_s() + timeout_s
        connection, was_idle = await self._borrow(timeout_s)
        try:
            response = await self._exchange(connection, call, deadline_s)
        except ConnectionLost:
            # The server may have closed an idle connection while the request was on its way.
            if not (was_idle and call.is_repeatable) or connection.has_answer_begun:
                raise
            connection = await self._open(deadline_s - self._clock.steady_s())
            response = await self._exchange(connection, call, deadline_s)
        if response.keep_alive and not self._is_closed and len(self._idle) < self._idle_max:
            self._idle.append(connection)
        else:
            connection.close()
        return call.answer(response)

    async def run(self, plan: Plan[T]) -> T:
        """Carry out a plan on this loop; return what it returns."""
        try:
            step = next(plan)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    step = plan.send(None)
                    continue
                try:
                    answer = await self.call(step.call, step.timeout_s)
                except MqError as error:
                    step = plan.throw(error)
                else:
                    step = plan.send(answer)
        except StopIteration as finished:
            value: T = finished.value
            return value

    async def close(self) -> None:
        """Close idle connections; those in use are closed when their call ends."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()
        # The loop tells the transports of their end in its next turn.
        await asyncio.sleep(0)

    async def _exchange(self, connection: Connection, call: Call[T], deadline_s: float) -> Response:
        try:
            left_s = deadline_s - self._clock.steady_s()
            return await connection.exchange(call, max(left_s, 0.001))
        except BaseException:
            # Whatever stopped it, a cancellation too: the next answer would be the wrong one.
            connection.close()
            raise

    async def _borrow(self, timeout_s: float) -> tuple[Connection, bool]:
        if self._is_closed:
            raise Closed("the client is closed")
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection, True
        return await self._open(timeout_s), False

    async def _open(self, timeout_s: float) -> Connection:
        endpoint = self._endpoint
        address = f"{endpoint.host}:{endpoint.port}"
        context = ssl.create_default_context() if endpoint.is_tls else None
        try:
            async with asyncio.timeout(max(min(timeout_s, CONNECT_S_MAX), 0.001)):
                _, connection = await asyncio.get_running_loop().create_connection(
                    self._protocol, endpoint.host, endpoint.port, ssl=context
                )
        except (OSError, UnicodeError) as error:
            raise ConnectFailed(f"cannot connect to {address}: {error!r}") from error
        return connection
