"""Where a RocketMQ 5 endpoint is, and as whom one comes there. Knows names, no sockets."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from mqclient.errors import InvalidArgument
from mqclient.rocketmq.protos import rocketmq_pb2 as pb

_PORT_MAX = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """An access point and credentials; raise InvalidArgument.

    `ca_file` names certificates to trust instead of the system's. Without an access key requests
    are not signed. `timeout_s` bounds one request, beyond the time the other side may hold it.
    """

    host: str
    port: int
    is_tls: bool = False
    ca_file: Path | None = None
    namespace: str = ""
    access_key: str | None = None
    secret: str | None = field(default=None, repr=False)
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if not self.host or not 0 < self.port <= _PORT_MAX:
            raise InvalidArgument(f"{self.host}:{self.port} is no host and port")
        if (self.access_key is None) != (self.secret is None):
            raise InvalidArgument("an access key and its secret go together")
        if self.ca_file is not None and not self.is_tls:
            raise InvalidArgument("certificates are of use with TLS only")
        if self.timeout_s <= 0:
            raise InvalidArgument("timeout_s must be positive")

    @property
    def endpoints(self) -> pb.Endpoints:
        """Return the access point as the protocol writes it."""
        return endpoints_of(self.host, self.port)


def host_and_port(text: str) -> tuple[str, int]:
    """Read `host:port`, an IPv6 address in brackets; raise InvalidArgument."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise InvalidArgument(f"{text!r}: an IPv6 address is written in brackets")
    if not host or not port.isdecimal():
        raise InvalidArgument(f"{text!r} is no host and port, such as rocketmq:8081")
    return host, int(port)


def endpoints_of(host: str, port: int) -> pb.Endpoints:
    """Return one address as the protocol writes it."""
    return pb.Endpoints(scheme=_scheme_of(host), addresses=[pb.Address(host=host, port=port)])


def target_of(endpoints: pb.Endpoints) -> str:
    """Return where a channel to endpoints leads."""
    address = endpoints.addresses[0]
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"


def _scheme_of(host: str) -> pb.AddressScheme:
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return pb.DOMAIN_NAME
    return pb.IPv4 if version == 4 else pb.IPv6
