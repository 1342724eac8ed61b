"""Carries sends over the lane, in threads, and everything else over HTTP. Knows sockets.

A connection of the lane is one of HTTP that was handed over, and is used in the same way: one
request at a time. So what is lost, repeated or in doubt is the same, by the same code.
"""

from typing import TypeVar

from mqclient.clock import Clock
from mqclient.errors import ConnectFailed, ProtocolViolation
from mqclient.protocol.calls import Call
from mqclient.protocol.endpoint import API, Endpoint
from mqclient.transport.blocking import Connection, Exchange, Pool
from mqclient.transport.refusing import NotUpgraded, Refusals
from mqclient.wire import lane
from mqclient.wire.http1 import Response

T = TypeVar("T")


class LaneConnection(Connection):
    """One connection of the lane, one request at a time."""

    __slots__ = ("_answers",)

    def __init__(self, endpoint: Endpoint, *, clock: Clock, timeout_s: float) -> None:
        """Connect and ask for the lane; raise ConnectFailed or NotUpgraded."""
        super().__init__(endpoint, clock=clock, timeout_s=timeout_s)
        try:
            self._set_timeout(timeout_s)
            response = self._upgraded(endpoint)
        except TimeoutError as error:
            self.close()
            # Nothing was sent that could be carried out.
            raise ConnectFailed(f"the lane was not granted within {timeout_s:.3f} s") from error
        except (OSError, ProtocolViolation) as error:
            self.close()
            raise NotUpgraded(str(error)) from error
        if response.status != 101:
            self.close()
            raise NotUpgraded.by(response.status)
        self._reader = self._answers = lane.AnswerReader()

    def _upgraded(self, endpoint: Endpoint) -> Response:
        self._socket.sendall(endpoint.upgrade(API + lane.PATH, lane.PROTOCOL))
        came = b""
        while True:
            data = self._socket.recv(self._reader.read_bytes)
            if not data:
                raise ProtocolViolation("the connection ended")
            came += data
            response = lane.handshake(came)
            if response is not None:
                return response

    def _buffers(self, call: Call[T]) -> tuple[bytes, ...]:
        assert call.lane is not None
        return lane.send_frame(self._answers.next_number(), call.lane, call.buffers[1:])


class LanePool(Pool):
    """Connections of the lane, and of HTTP for what it does not carry. Any thread may use it."""

    def __init__(self, endpoint: Endpoint, *, clock: Clock, idle_max: int = 16) -> None:
        super().__init__(endpoint, clock=clock, idle_max=idle_max)
        self._http = Pool(endpoint, clock=clock, idle_max=idle_max)
        self._refusals = Refusals(clock)

    def begin(self, call: Call[T], timeout_s: float) -> Exchange[T]:
        """Write a call's request; raise MqError when that fails."""
        if call.lane is None or not self._refusals.may_ask():
            return self._http.begin(call, timeout_s)
        try:
            return super().begin(call, timeout_s)
        except NotUpgraded as refusal:
            self._refusals.take(refusal)
            return self._http.begin(call, timeout_s)

    def call_anew(self, call: Call[T], deadline_s: float) -> T:
        """Carry out a call on a connection that was never idle."""
        try:
            return super().call_anew(call, deadline_s)
        except NotUpgraded as refusal:
            self._refusals.take(refusal)
            return self._http.call_anew(call, deadline_s)

    def close(self) -> None:
        """Close idle connections; those in use are closed when their call ends."""
        super().close()
        self._http.close()

    def abort(self) -> None:
        """Close all connections; calls under way end with ConnectionLost."""
        super().abort()
        self._http.abort()

    def hang_up(self) -> None:
        """Close idle connections, and have the server end what it holds on the others."""
        super().hang_up()
        self._http.hang_up()

    def forget(self) -> None:
        """Close this process's copies of the sockets, after a fork; the parent keeps its own."""
        super().forget()
        self._http.forget()

    def _open(self, timeout_s: float) -> Connection:
        return LaneConnection(self._endpoint, clock=self._clock, timeout_s=max(timeout_s, 0.001))
