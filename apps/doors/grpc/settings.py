"""How the gRPC door is set up. One frozen value; knows no environment variables."""

from dataclasses import dataclass

from apps.engine import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """Settings of the gRPC door; limits of messages are those of the door beside it."""

    broker_name: str = "mqweb"
    delay_levels_ms: tuple[int, ...] = limits.DELAY_LEVELS_MS
    """What a group waits between attempts that has no delays of its own."""
    poll_ms_max: int = 20_000
    """The longest wait of a receive, and that of one that does not say; RocketMQ's proxy's."""
    poll_margin_ms: int = 500
    """How long before the client's deadline a receive is answered: answers have a way to go."""
    invisible_ms: int = 60_000
    """How long a push consumer's messages are hidden before they are renewed."""
    first_settings_ms: int = 1_000
    """How long a new stream may be silent before its client is asked about transactions."""
    renewed_ms_max: int = 3 * 3_600_000
    """How long a push consumer may work on a message at all."""

    def __post_init__(self) -> None:
        """Raise ValueError for waits the engine would refuse."""
        if not 0 < self.poll_ms_max <= limits.WAIT_MS_MAX:
            raise ValueError(f"poll_ms_max must be 1 to {limits.WAIT_MS_MAX}")
        if not limits.INVISIBLE_MS_MIN <= self.invisible_ms <= limits.INVISIBLE_MS_MAX:
            raise ValueError("invisible_ms must be one the engine takes")
