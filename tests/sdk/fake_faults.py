"""What goes wrong at the fake broker, and when. Knows no sockets."""

import threading
from dataclasses import dataclass, field


@dataclass
class Fault:
    """What happens to the requests whose line holds `match`, `times` times, after `skip` of them.

    reset_before: the connection breaks, nothing was done; reset_after: it was done;
    status: refused with that status; hold: nothing happens until `release`, then it is served;
    hold_reset: nothing happens until `release`, then the connection breaks, nothing was done.
    """

    match: str
    action: str
    times: int = 1
    skip: int = 0
    status: int = 503
    code: str = "overloaded"
    retriable: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    fired_count: int = 0
    fired: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Let held requests go on."""
        self.gate.set()
