"""The gRPC server: its ports, its options, its start and its end. Knows no method."""

import grpc

from apps.doors.grpc.calls import GrpcDoor
from apps.doors.grpc.service import handlers
from apps.engine.limits import MIB

# A body of the largest size with all its properties, as RocketMQ's proxy has it.
_MESSAGE_BYTES_MAX = 130 * MIB
_HEADERS_BYTES_MAX = 16 * 1024
# What is under way has so long to end once the server is asked to.
_GRACE_S = 2.0

_OPTIONS = (
    # Two servers on one port would each get some of the clients.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", _HEADERS_BYTES_MAX),
    # A client whose machine is gone never closes its stream.
    ("grpc.keepalive_time_ms", 120_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Some clients ping every minute with nothing to ask.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 0),
)


class CannotListen(Exception):
    """A port is taken, or is not ours to take."""


class GrpcServer:
    """Serves one door on one or two ports."""

    def __init__(self, door: GrpcDoor) -> None:
        """Listen nowhere yet. Needs a running loop."""
        self._door = door
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((handlers(door),))

    def listen(
        self, host: str, port: int, credentials: grpc.ServerCredentials | None = None
    ) -> int:
        """Bind a port, 0 for any, and return it; raise CannotListen."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if credentials is None:
                return int(self._server.add_insecure_port(address))
            return int(self._server.add_secure_port(address, credentials))
        except RuntimeError as error:
            raise CannotListen(f"cannot listen on {address} for gRPC: {error}") from error

    async def start(self) -> None:
        """Answer calls from here on."""
        await self._server.start()

    async def stop(self, grace_s: float = _GRACE_S) -> None:
        """Take no more calls, let those under way end, and end the rest."""
        await self._door.stop()
        await self._server.stop(grace_s)
