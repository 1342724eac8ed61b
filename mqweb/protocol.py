"""The composition root of the server's connections: what they speak, and who watches them."""

import resource

from django.conf import settings

from apps.bridge.prompt import PromptProtocol
from apps.core.proxies import Proxies
from apps.doors.guard.connections import ConnectionRules, Connections
from apps.doors.guard.protocol import guarded
from apps.engine.clock import SystemClock


def _connections_max() -> int:
    """Return how many there may be, with descriptors left for the store and the database."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(settings.MQWEB.connections_max, descriptors * 3 // 4))


connections = Connections(
    ConnectionRules(
        connections_max=_connections_max(),
        client_connections_max=settings.MQWEB.client_connections_max,
        has_many_clients=Proxies(settings.MQWEB.trusted_proxies).believes,
        head_ms=settings.MQWEB.head_timeout_ms,
        body_ms=settings.MQWEB.body_timeout_ms,
        send_ms=settings.MQWEB.send_timeout_ms,
    ),
    SystemClock(),
)
Protocol = guarded(PromptProtocol, connections)
