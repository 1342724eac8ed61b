"""`manage.py broker`: the process that owns the store and answers on the port."""

import argparse
import signal
import socket
import sys
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.bridge import conf, flags, lifecycle, memory, takeover
from apps.bridge.exits import Exit

# Requests that are still not answered are cut off when this is over.
_GRACE_S = 3
# Clients keep connections between calls; longer than the pauses of a busy producer.
_KEEP_ALIVE_S = 75
_BACKLOG = 2048
# The engine's largest frame is a record; sockets of the console only speak, and never listen.
_SOCKET_FRAME_BYTES_MAX = 64 * 1024


class Command(BaseCommand):
    """Serve until SIGTERM or SIGINT."""

    help = "Run the broker, the API and the console in one process."
    requires_migrations_checks = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags; manage.py has already turned them into variables."""
        flags.add_flags(parser)
        flags.add_switches(parser)

    def handle(self, *_args: Any, take_over: bool, **_options: Any) -> None:
        """Serve; exit with a code of `exits.Exit`."""
        configuration = _configuration()
        if take_over:
            # Before the holder ends: its supervisor would start another one meanwhile.
            configuration.load()
            _take_over()
        listening = _listening()
        # The server raises the signals again that stopped it; they have been obeyed by then.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: None)
        memory.keep_buffers()
        server = _Server(configuration)
        with listening:
            lifecycle.listens_on(listening)
            try:
                server.run(sockets=[listening])
            except SystemExit as ended:
                # The server's own code for a failed start has another meaning among ours.
                refusal = lifecycle.refusal()
                if refusal is None:
                    sys.exit(Exit.FAILED)
                raise CommandError(str(refusal.error), returncode=refusal.code) from ended


class _Server(uvicorn.Server):
    """A server that closes the engine before it waits for open requests.

    A parked pull is answered by the closing engine at once; it would outlast any patience.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the engine, then the connections."""
        await lifecycle.stop()
        await super().shutdown(sockets)


def _take_over() -> None:
    try:
        takeover.end_holder(conf.store_path() / "lock")
    except takeover.CannotTakeOver as refusal:
        raise CommandError(str(refusal), returncode=Exit.HELD) from refusal


def _listening() -> socket.socket:
    """Return the socket of HTTP; raise CommandError where that or another port is not free."""
    host, port = settings.MQWEB.host, settings.MQWEB.port
    try:
        for port in settings.MQWEB.grpc.open:
            # The other server binds its own; here it is only told before anything is opened.
            _listen(host, port).close()
        port = settings.MQWEB.port
        return _listen(host, port)
    except OSError as error:
        raise CommandError(
            f"cannot listen on {host}:{port}: {error.strerror}", returncode=Exit.REFUSED
        ) from error


def _listen(host: str, port: int) -> socket.socket:
    """Bind before the store is opened, so that a taken port is told without side effects."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError:
        listening.close()
        raise
    return listening


def _configuration() -> uvicorn.Config:
    return uvicorn.Config(
        # Names, not imports: the composition root stands above this application.
        "mqweb.asgi:application",
        loop="uvloop",
        http="mqweb.protocol:Protocol",
        ws="websockets-sansio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        backlog=_BACKLOG,
        # The same frame would be compressed once for each of its viewers, on the engine's loop.
        ws_per_message_deflate=False,
        ws_max_size=_SOCKET_FRAME_BYTES_MAX,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
    )
