"""kombu's transport `mqweb://[:TOKEN@]HOST:PORT/[VIRTUAL_HOST]`. Knows kombu's connection only."""

from importlib.metadata import version
from typing import Any

from kombu import Connection
from kombu.transport import base

from mqclient.celery.channel import Channel
from mqclient.celery.failures import CHANNEL_ERRORS, CONNECTION_ERRORS
from mqclient.celery.link import Link
from mqclient.celery.names import DEFAULT_VIRTUAL_HOST
from mqclient.celery.options import Options
from mqclient.celery.routing import EXCHANGE_TYPES
from mqclient.clock import SystemClock
from mqclient.protocol.endpoint import Endpoint

_DEFAULT_HOST = "127.0.0.1"
_CONNECT_S_MAX = 5.0


class Transport(base.Transport):
    """Celery's queues in mqweb."""

    default_port = 8000
    driver_type = "mqweb"
    driver_name = "mqclient"

    connection_errors = CONNECTION_ERRORS
    channel_errors = CHANNEL_ERRORS
    recoverable_connection_errors = CONNECTION_ERRORS
    recoverable_channel_errors = ()

    implements = base.Transport.implements.extend(
        asynchronous=True, exchange_type=EXCHANGE_TYPES, heartbeats=False
    )

    def __init__(self, client: Connection, **_more: Any) -> None:
        """Belong to kombu's connection, which has one link at a time."""
        super().__init__(client)
        self._link: Link | None = None

    def driver_version(self) -> str:
        """Return the SDK's version."""
        return version("mqclient")

    @property
    def default_connection_params(self) -> dict[str, Any]:
        """Return what holds where the URL says nothing."""
        return {"hostname": _DEFAULT_HOST, "port": self.default_port}

    def establish_connection(self) -> Link:
        """Return a link to a broker that serves now; raise Unreachable or Busy, or a refusal."""
        if self._link is not None:
            # One that failed, or a parent's. What it holds would be kept from everybody else.
            self._link.close()
        client = self.client
        assert client is not None, "kombu closed this transport"
        host = (client.hostname or _DEFAULT_HOST).strip("[]")
        address = f"[{host}]" if ":" in host else host
        port = client.port or self.default_port
        link = Link(
            client,
            Endpoint.of(
                f"http{'s' if client.ssl else ''}://{address}:{port}", client.password or None
            ),
            Options.of(client.transport_options or {}),
            virtual_host=client.virtual_host or DEFAULT_VIRTUAL_HOST,
            clock=SystemClock(),
        )
        link.requests.check(timeout_s=min(client.connect_timeout or _CONNECT_S_MAX, _CONNECT_S_MAX))
        self._link = link
        return link

    def verify_connection(self, connection: Link) -> bool:
        """Tell whether a connection is as good as when it was made."""
        return connection.is_usable

    def close_connection(self, connection: Link) -> None:
        """Give back, flush and end."""
        connection.close()

    def create_channel(self, connection: Link) -> Channel:
        """Open a channel."""
        connection.check()
        return Channel(connection)

    def close_channel(self, channel: Channel) -> None:
        """Close a channel."""
        channel.close()

    def drain_events(self, connection: Link, timeout: float | None = None, **_more: Any) -> None:
        """Deliver one message; raise TimeoutError when none came in time."""
        connection.drain(timeout)

    def register_with_event_loop(self, connection: Link, loop: Any) -> None:
        """Have kombu's event loop deliver messages."""
        connection.join_loop(loop)

    def unregister_from_event_loop(self, connection: Link, loop: Any) -> None:
        """Have the event loop deliver no more."""
        del loop  # The link remembers it.
        connection.leave_loop()
