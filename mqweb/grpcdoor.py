"""The gRPC door of this process, set up from the environment. Composes; answers nothing itself."""

from collections.abc import Awaitable, Callable

import grpc

from apps.bridge import lifecycle
from apps.doors.grpc.calls import GrpcDoor
from apps.doors.grpc.server import CannotListen, GrpcServer
from apps.doors.grpc.settings import GrpcSettings
from apps.doors.guard.clients import ClientLimits
from apps.doors.http.calls import Door
from apps.engine.api import EngineAPI
from apps.engine.errors import Refused
from mqweb.env import Environment
from mqweb.envgrpc import GrpcPorts


async def serve(
    environment: Environment,
    engine_of: Callable[[], EngineAPI | None],
    shared: Door,
    client_limits: ClientLimits | None,
) -> Callable[[], Awaitable[None]]:
    """Serve on the running loop; return what ends it.

    Raises Refused, and has the process end for it, where a port or a certificate is not to be had.
    """
    door = GrpcDoor(
        door=shared,
        engine_of=engine_of,
        settings=GrpcSettings(
            broker_name=environment.broker_name, delay_levels_ms=environment.delay_levels_ms
        ),
        client_limits=client_limits,
    )
    server = GrpcServer(door)
    ports = environment.grpc
    try:
        if ports.port:
            server.listen(environment.host, ports.port)
        if ports.tls_port:
            server.listen(environment.host, ports.tls_port, _credentials(ports))
    except (CannotListen, OSError) as refusal:
        error = Refused(str(refusal))
        lifecycle.refuse(error)
        raise error from refusal
    await server.start()
    return server.stop


def _credentials(ports: GrpcPorts) -> grpc.ServerCredentials:
    """Return what proves who we are; raise OSError for files that cannot be read."""
    assert ports.tls_cert is not None
    assert ports.tls_key is not None
    return grpc.ssl_server_credentials([(ports.tls_key.read_bytes(), ports.tls_cert.read_bytes())])
