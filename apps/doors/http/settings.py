"""How one door is set up. One frozen value, checked once; knows no environment variables."""

from dataclasses import dataclass

from apps.engine import limits
from apps.engine.codec import wire
from apps.engine.config import EngineConfig
from apps.engine.types import AckMode


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorSettings:
    """Settings of the HTTP door; limits default to the engine's."""

    auth: str = "off"
    """Who may call: `off`, everybody who reaches the socket; `on`, whom the door's gate lets."""
    allowed_hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "::1"})
    """Host names without port that a request may be addressed to; `*` allows any."""
    default_ack: AckMode = AckMode.SYNC
    body_bytes_max: int = limits.BODY_BYTES_MAX
    properties_bytes_max: int = limits.PROPERTIES_BYTES_MAX
    batch_bytes_max: int = limits.BATCH_BYTES_MAX
    """Records of one binary batch, without its header and size table."""
    request_bytes_max: int = limits.BATCH_BYTES_MAX
    """The body of any other request, as it travels."""
    requests_bytes_max: int = 256 * limits.MIB
    """Bodies of requests and JSON answers in memory, of all connections together."""
    delay_ms_max: int = EngineConfig().delay_ms_max
    """The longest delay of a JSON message. The engine has a limit of its own, for all of a send."""

    def __post_init__(self) -> None:
        """Raise ValueError for a setting this door would have to pretend to obey."""
        if self.auth not in ("off", "on"):
            raise ValueError(f"auth {self.auth!r} does not exist; it is off or on")
        if self.requests_bytes_max < self.batch_bytes_max + wire.BATCH_TABLE_BYTES_MAX:
            raise ValueError("requests_bytes_max must hold the largest batch")
        if self.body_bytes_max > min(self.batch_bytes_max, self.request_bytes_max):
            raise ValueError("body_bytes_max must fit into batch_bytes_max and request_bytes_max")
