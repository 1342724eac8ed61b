"""Variables of the gRPC door: ports and a certificate. Pure: knows names and limits; no socket."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mqweb.envvalues import integer, path
from mqweb.variables import Refused, Variable

_PORT_MAX = 65_535

VARIABLES = (
    Variable(
        name="MQWEB_GRPC_PORT", default="8081", meaning="for RocketMQ's gRPC clients; 0: no port"
    ),
    Variable(name="MQWEB_GRPC_TLS_PORT", default="0", meaning="for those that speak TLS; 0: none"),
    Variable(name="MQWEB_GRPC_TLS_CERT", default="", meaning="file of the certificate chain, PEM"),
    Variable(name="MQWEB_GRPC_TLS_KEY", default="", meaning="file of the certificate's key, PEM"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcPorts:
    """The variables, parsed. A port of 0 is none; one for TLS has both files."""

    port: int = 8081
    tls_port: int = 0
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def __str__(self) -> str:
        """Return the ports for people; no name of a file."""
        told = [str(self.port)] if self.port else []
        return ", ".join([*told, *([f"{self.tls_port} (TLS)"] if self.tls_port else [])]) or "off"

    @property
    def are_any(self) -> bool:
        """Say whether there is a port at all."""
        return bool(self.port or self.tls_port)

    @property
    def open(self) -> tuple[int, ...]:
        """Return the ports there are."""
        return tuple(port for port in (self.port, self.tls_port) if port)


def read(values: Mapping[str, str]) -> GrpcPorts:
    """Parse the variables, each of which is there; raise Refused for the first bad one."""
    tls_port = integer(values, "MQWEB_GRPC_TLS_PORT", 0, _PORT_MAX)
    cert, key = values["MQWEB_GRPC_TLS_CERT"], values["MQWEB_GRPC_TLS_KEY"]
    if tls_port and not (cert and key):
        raise Refused(
            "MQWEB_GRPC_TLS_PORT: needs MQWEB_GRPC_TLS_CERT and MQWEB_GRPC_TLS_KEY, two files"
        )
    return GrpcPorts(
        port=integer(values, "MQWEB_GRPC_PORT", 0, _PORT_MAX),
        tls_port=tls_port,
        tls_cert=path(cert),
        tls_key=path(key),
    )
