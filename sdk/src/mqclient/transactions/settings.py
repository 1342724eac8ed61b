"""What can be set about a producer of transactions. Knows numbers and names only."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mqclient.consuming.settings import new_client_id
from mqclient.errors import InvalidArgument
from mqclient.limits import WAIT_MS_MAX
from mqclient.names import checked_name
from mqclient.values import Decision, TransactionCheck

Checker = Callable[[TransactionCheck], Decision]
AsyncChecker = Callable[[TransactionCheck], Awaitable[Decision]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """How transactions are begun, ended and checked; raise InvalidName or InvalidArgument.

    `timeout_s` bounds a request with its attempts. A question of the broker is awaited for
    `wait_ms` at a time, and up to `checks_max` of them come together. `check_immunity_ms` is how
    long the broker waits before the first; None leaves it to the broker.
    """

    producer_group: str
    check_immunity_ms: int | None = None
    checks_max: int = 32
    wait_ms: int = 20_000
    timeout_s: float = 10.0
    client_id: str = field(default_factory=new_client_id)

    def __post_init__(self) -> None:
        checked_name(self.producer_group, "producer group")
        if not 0 <= self.wait_ms <= WAIT_MS_MAX:
            raise InvalidArgument(f"wait_ms is 0 to {WAIT_MS_MAX}")
        if self.check_immunity_ms is not None and self.check_immunity_ms < 0:
            raise InvalidArgument("check_immunity_ms is 0 or more")
        if self.checks_max <= 0 or self.timeout_s <= 0:
            raise InvalidArgument("checks_max and timeout_s must be positive")
        if not self.client_id:
            raise InvalidArgument("client_id must not be empty")
