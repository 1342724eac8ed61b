"""What a side of a comparison is: a server, and a client that does the work in its own process.

Knows values and protocols only. Ours is in `ours.py`, the others are in `peers/`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Durability(StrEnum):
    """What an acknowledgement is asked to mean."""

    ASYNC = "async"
    """The server has the bytes; the disk follows within the flush interval."""
    SYNC = "sync"
    """The bytes are on the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a side's acknowledgement means in one mode, for the reader of the table."""

    text: str
    is_weaker: bool = False
    """The side cannot give what the mode asks for, and is measured at the most it can give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When each message of an open loop is due, on the system's monotonic clock."""

    start_s: float
    per_s: int

    def due_at_s(self, index: int) -> float:
        """Return when message `index` should be sent."""
        return self.start_s + index / self.per_s

    def due_count(self, now_s: float) -> int:
        """Return how many messages should have been sent by now."""
        return max(0, int((now_s - self.start_s) * self.per_s) + 1)


class Client(Protocol):
    """The client half of a side: a small frozen value that is carried to the client process.

    Bodies are made before the clock starts and checked after it has stopped. Connecting and
    creating topics is not timed.
    """

    def create(self, topic: str) -> None:
        """Make an empty topic, with whatever a first consumer needs."""
        ...

    def produce(self, topic: str, bodies: Sequence[bytes]) -> float:
        """Send in batches; return the seconds until everything was acknowledged."""
        ...

    def produce_batches(self, topic: str, bodies: Sequence[bytes], batch: int) -> float:
        """Send so many at a time, all acknowledged before the next; return the seconds."""
        ...

    def consume(self, topic: str, count: int) -> tuple[float, list[bytes]]:
        """Take and acknowledge messages in batches; return the seconds and the bodies.

        Gives up, with fewer bodies, when nothing comes for `PATIENCE_S`.
        """
        ...

    def one_by_one(self, topic: str, bodies: Sequence[bytes]) -> float:
        """Send one message, wait for its acknowledgement, send the next; return the seconds."""
        ...

    def send_paced(self, topic: str, bodies: Sequence[bytes], pace: Pace) -> None:
        """Send each message when it is due, all that are due at each tick together."""
        ...

    def receive_stamped(self, topic: str, count: int) -> list[tuple[float, bytes]]:
        """Wait for messages and acknowledge them; return when each came, and its body."""
        ...


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to use a client, and what it is called where it sends and where it reads."""

    sending: str
    reading: str
    """Empty where another variant reads in the same way: what arrived is still looked at."""
    client: Client
    single: str = ""
    """What it is called where it sends one by one; only the first variant does without a name."""


class Side(Protocol):
    """One product under measurement: its server is started and stopped in this process."""

    @property
    def name(self) -> str:
        """Return the product's name."""
        ...

    def missing(self) -> str:
        """Say what has to be installed before this side can run; empty when nothing."""
        ...

    def versions(self) -> str:
        """Return the versions of server and client."""
        ...

    def terms(self, durability: Durability) -> Terms:
        """Say how the server flushes and what its acknowledgement means."""
        ...

    def start(self, durability: Durability, directory: Path) -> None:
        """Start the server with its data below an empty directory; return when it answers."""
        ...

    def clients(self) -> Sequence[Variant]:
        """Return the ways to use the running server; the first does what has no variants."""
        ...

    def stop(self) -> None:
        """Stop the server; nothing happens when none runs."""
        ...


# A consumer that got nothing for this long will not get the rest either.
PATIENCE_S = 10.0
# Open loops look this often for what is due; the delay counts, as it would for a user.
TICK_S = 0.001
