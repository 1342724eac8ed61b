"""Carries calls over blocking sockets. Knows sockets and TLS, nothing of what is carried."""

import contextlib
import os
import select
import socket
import ssl
import threading
import time
from collections import deque
from typing import Generic, TypeVar

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

# Below this, copying the parts together is cheaper than a second buffer in the kernel call.
_JOIN_BYTES_MAX = 32 * 1024
# A server closes idle connections after some seconds; a younger one need not be asked.
_FRESH_S = 0.5
_CONNECT_S_MAX = 5.0


class Connection:
    """One connection, one request at a time."""

    __slots__ = ("_clock", "_reader", "_socket", "_timeout_s", "idle_since_s")

    def __init__(self, endpoint: Endpoint, *, clock: Clock, timeout_s: float) -> None:
        """Connect; raise ConnectFailed."""
        address = f"{endpoint.host}:{endpoint.port}"
        try:
            plain = socket.create_connection(
                (endpoint.host, endpoint.port), min(timeout_s, _CONNECT_S_MAX)
            )
        except (OSError, UnicodeError) as error:
            raise ConnectFailed(f"cannot connect to {address}: {error}") from error
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = (
                ssl.create_default_context().wrap_socket(plain, server_hostname=endpoint.host)
                if endpoint.is_tls
                else plain
            )
        except OSError as error:
            plain.close()
            raise ConnectFailed(f"cannot talk to {address}: {error}") from error
        self._reader: ResponseReader | AnswerReader = ResponseReader()
        self._timeout_s = -1.0
        self._clock = clock
        self.idle_since_s = clock.steady_s()

    @property
    def has_answer_begun(self) -> bool:
        """Tell whether any byte of the current answer came."""
        return self._reader.has_begun

    def is_usable(self, now_s: float) -> bool:
        """Tell whether an idle connection is still open, as far as this side can know."""
        if now_s - self.idle_since_s < _FRESH_S:
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        # Nobody asked anything, so readable means closed, or broken in another way.
        return not poll.poll(0)

    def write(self, call: Call[T], timeout_s: float) -> None:
        """Write a request; raise ConnectionLost or TimedOut."""
        try:
            self._set_timeout(timeout_s)
            self._write(self._buffers(call))
        except TimeoutError as error:
            raise TimedOut(f"the request was not taken within {timeout_s:.3f} s") from error
        except OSError as error:
            raise ConnectionLost(f"the connection was lost: {error}") from error

    def read(self, deadline_s: float) -> Response:
        """Read the answer to the request that was written; raise ConnectionLost or TimedOut."""
        timeout_s = max(deadline_s - self._clock.steady_s(), 0.001)
        data = b""
        try:
            self._set_timeout(timeout_s)
            reader, receive = self._reader, self._socket.recv
            while True:
                data = receive(reader.read_bytes)
                response = reader.feed(data) if data else reader.feed_end()
                if response is not None:
                    return response
                left_s = deadline_s - self._clock.steady_s()
                if left_s <= 0:
                    raise TimeoutError
                self._set_timeout(left_s)
        except TimeoutError as error:
            raise TimedOut(f"no whole answer came within {timeout_s:.3f} s") from error
        except OSError as error:
            raise ConnectionLost(f"the connection was lost: {error}") from error
        except ProtocolViolation as error:
            if data:
                raise
            raise ConnectionLost("the connection ended before the answer was whole") from error

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def abort(self) -> None:
        """End the exchange another thread has under way on this connection."""
        self._shut(socket.SHUT_RDWR)

    def hang_up(self) -> None:
        """Ask the server to end the exchange another thread has under way.

        It answers that nothing came by closing; an answer already on its way still arrives.
        """
        self._shut(socket.SHUT_WR)

    def _shut(self, how: int) -> None:
        with contextlib.suppress(OSError):
            # The thread may have closed it meanwhile, which is what is wanted.
            self._socket.shutdown(how)

    def _buffers(self, call: Call[T]) -> tuple[bytes, ...]:
        return call.buffers

    def _write(self, buffers: tuple[bytes, ...]) -> None:
        if len(buffers) == 1 or sum(map(len, buffers)) <= _JOIN_BYTES_MAX:
            self._socket.sendall(b"".join(buffers))
        elif isinstance(self._socket, ssl.SSLSocket):
            for buffer in buffers:
                self._socket.sendall(buffer)
        else:
            self._write_gathered(buffers)

    def _write_gathered(self, buffers: tuple[bytes, ...]) -> None:
        sent = self._socket.sendmsg(buffers)
        for buffer in buffers:
            if sent < len(buffer):
                self._socket.sendall(memoryview(buffer)[sent:])
                sent = 0
            else:
                sent -= len(buffer)

    def _set_timeout(self, timeout_s: float) -> None:
        if timeout_s != self._timeout_s:
            self._socket.settimeout(timeout_s)
            self._timeout_s = timeout_s


class Exchange(Generic[T]):
    """A call whose request is written and whose answer is not read: `finish` or `abandon` it."""

    __slots__ = ("_call", "_connection", "_deadline_s", "_pool", "_was_idle")

    def __init__(
        self, pool: "Pool", call: Call[T], connection: Connection, deadline_s: float, was_idle: bool
    ) -> None:
        self._pool = pool
        self._call = call
        self._connection = connection
        self._deadline_s = deadline_s
        self._was_idle = was_idle

    def finish(self) -> T:
        """Wait for the answer and return it; raise the error of the answer or of the way there."""
        try:
            response = self._pool.read(self._connection, self._deadline_s)
        except ConnectionLost:
            # The server may have closed an idle connection while the request was on its way.
            is_stale = self._was_idle and not self._connection.has_answer_begun
            if not (is_stale and self._call.is_repeatable):
                raise
            return self._pool.call_anew(self._call, self._deadline_s)
        self._pool.give_back(self._connection, response)
        return self._call.answer(response)

    def abandon(self) -> None:
        """Close the connection: the next answer on it would be the wrong one."""
        self._pool.drop(self._connection)


class Pool:
    """Connections to one broker, opened as needed. Any thread may use it."""

    def __init__(self, endpoint: Endpoint, *, clock: Clock, idle_max: int = 16) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._idle_max = idle_max
        self._idle: deque[Connection] = deque()
        self._used: set[Connection] = set()
        self._pid = os.getpid()
        self._is_closed = False
        self._lock = threading.Lock()

    def call(self, call: Call[T], timeout_s: float) -> T:
        """Carry out a call; raise the error of its answer or of the way there."""
        return self.begin(call, timeout_s).finish()

    def begin(self, call: Call[T], timeout_s: float) -> Exchange[T]:
        """Write a call's request; raise MqError when that fails."""
        now_s = self._clock.steady_s()
        deadline_s = now_s + timeout_s
        connection = self._borrow(now_s)
        was_idle = connection is not None
        try:
            if connection is None:
                connection = self._open(timeout_s)
                self._write(connection, call, deadline_s)
            else:
                self._write_used(connection, call, timeout_s)
        except ConnectionLost:
            if not (was_idle and call.is_repeatable):
                raise
            connection, was_idle = self._open(deadline_s - self._clock.steady_s()), False
            self._write(connection, call, deadline_s)
        return Exchange(self, call, connection, deadline_s, was_idle)

    def call_anew(self, call: Call[T], deadline_s: float) -> T:
        """Carry out a call on a connection that was never idle."""
        connection = self._open(deadline_s - self._clock.steady_s())
        self._write(connection, call, deadline_s)
        return Exchange(self, call, connection, deadline_s, False).finish()

    def read(self, connection: Connection, deadline_s: float) -> Response:
        """Read an answer; the connection is closed when that fails."""
        try:
            return connection.read(deadline_s)
        except BaseException:
            # Whatever stopped it, an interrupt too: the next answer would be the wrong one.
            self.drop(connection)
            raise

    def give_back(self, connection: Connection, response: Response) -> None:
        """Keep a connection for the next call, or close it when the server will."""
        connection.idle_since_s = self._clock.steady_s()
        with self._lock:
            self._used.discard(connection)
            has_room = not self._is_closed and len(self._idle) < self._idle_max
            if response.keep_alive and has_room:
                self._idle.append(connection)
                return
        connection.close()

    def drop(self, connection: Connection) -> None:
        """Close a connection that cannot be used again."""
        connection.close()
        with self._lock:
            self._used.discard(connection)

    def run(self, plan: Plan[T]) -> T:
        """Carry out a plan in this thread; return what it returns."""
        try:
            step = next(plan)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    step = plan.send(None)
                    continue
                try:
                    answer = self.call(step.call, step.timeout_s)
                except MqError as error:
                    step = plan.throw(error)
                else:
                    step = plan.send(answer)
        except StopIteration as finished:
            value: T = finished.value
            return value

    def close(self) -> None:
        """Close idle connections; those in use are closed when their call ends."""
        with self._lock:
            self._is_closed = True
            connections = list(self._idle)
            self._idle.clear()
        for connection in connections:
            connection.close()

    def abort(self) -> None:
        """Close all connections; calls under way end with ConnectionLost."""
        for connection in self._refuse():
            connection.abort()
        self.close()

    def hang_up(self) -> None:
        """Close idle connections, and have the server end what it holds on the others.

        Calls under way end with ConnectionLost unless their answer was already on its way.
        """
        for connection in self._refuse():
            connection.hang_up()
        self.close()

    def _refuse(self) -> list[Connection]:
        """Take no more calls; return the connections with a call under way."""
        with self._lock:
            self._is_closed = True
            return list(self._used)

    def forget(self) -> None:
        """Close this process's copies of the sockets, after a fork; the parent keeps its own.

        Takes no lock: the thread that held it does not exist here.
        """
        for connection in (*self._idle, *self._used):
            connection.close()
        self._idle.clear()
        self._used.clear()

    def _write(self, connection: Connection, call: Call[T], deadline_s: float) -> None:
        with self._lock:
            if self._is_closed:
                connection.close()
                raise Closed("the client is closed")
            self._used.add(connection)
        self._write_used(connection, call, deadline_s - self._clock.steady_s())

    def _write_used(self, connection: Connection, call: Call[T], timeout_s: float) -> None:
        try:
            connection.write(call, max(timeout_s, 0.001))
        except BaseException:
            self.drop(connection)
            raise

    def _borrow(self, now_s: float) -> Connection | None:
        """Return a connection that was idle, now used; None when there is none."""
        while True:
            with self._lock:
                if self._is_closed:
                    raise Closed("the client is closed")
                if self._pid != os.getpid():
                    # After a fork the sockets are the parent's; closing them here tells the
                    # broker nothing.
                    self._idle.clear()
                    self._used.clear()
                    self._pid = os.getpid()
                if not self._idle:
                    return None
                connection = self._idle.pop()
                self._used.add(connection)
            if connection.is_usable(now_s):
                return connection
            self.drop(connection)

    def _open(self, timeout_s: float) -> Connection:
        return Connection(self._endpoint, clock=self._clock, timeout_s=max(timeout_s, 0.001))
