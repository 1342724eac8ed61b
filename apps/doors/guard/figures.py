"""What was refused and given up, as metrics. Knows names and labels, counts nothing."""

from collections.abc import Iterator

from apps.doors.guard.clients import ClientLimits
from apps.doors.guard.connections import Connections
from apps.doors.guard.standstill import Stillness
from apps.doors.http.inflight import InFlight
from apps.doors.http.metrics import Metric


def families(
    connections: Connections,
    clients: ClientLimits,
    in_flight: InFlight,
    stillness: Stillness | None,
) -> Iterator[Metric]:
    """Yield the metric families of what stands between clients and verbs."""
    yield Metric("mqweb_connections", "gauge", "Connections.", [({}, len(connections))])
    refused = [({"reason": str(reason)}, n) for reason, n in sorted(connections.refused.items())]
    text = "Connections answered and closed at once."
    yield Metric("mqweb_connections_refused_total", "counter", text, refused)
    given_up = [({"stage": str(stage)}, n) for stage, n in sorted(connections.given_up.items())]
    text = "Connections closed because they stood still."
    yield Metric("mqweb_connections_given_up_total", "counter", text, given_up)
    requests = [
        ({"code": "overloaded"}, in_flight.refused_count),
        ({"code": "too_many_requests"}, clients.refused_count),
    ]
    text = "Requests refused for what is under way, or for what a client may have."
    yield Metric("mqweb_requests_refused_total", "counter", text, requests)
    count, total_ms = (stillness.count, stillness.total_ms) if stillness else (0, 0)
    text = "Times the event loop stood still for seconds."
    yield Metric("mqweb_standstills_total", "counter", text, [({}, count)])
    text = "For how long it stood still then, ms."
    yield Metric("mqweb_standstill_ms_total", "counter", text, [({}, total_ms)])
