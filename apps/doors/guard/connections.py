"""All connections of the process: how many, whose, and which stand still. Knows no HTTP.

Nothing is done for a connection while it is served. Once a second all are looked at; what a
connection is at, and how many bytes have come and gone, is asked of it then.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from apps.engine.clock import Clock

_log = logging.getLogger("mqweb.broker")

LOOK_EVERY_S = 1.0
# Slower than any line people still use; who is slower holds a place and does nothing with it.
BYTES_PER_S_MIN = 512
# What happens to many connections at once is one line of the log in so long.
LOG_EVERY_MS = 10_000


def _never(_client: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRules:
    """How many connections there may be, and how long each may stand still."""

    connections_max: int = 10_000
    client_connections_max: int = 0
    """Connections of one client; 0 is any number."""
    has_many_clients: Callable[[str], bool] = _never
    """Says whether an address is one that many clients come from: it may have any number."""
    head_ms: int = 20_000
    """From the beginning of a request, or of the connection, to the end of its head."""
    body_ms: int = 20_000
    """A body that brings less than 512 bytes a second for so long is given up."""
    send_ms: int = 20_000
    """An answer of which less than 512 bytes a second are taken for so long is given up."""


class Stage(StrEnum):
    """What a connection is at, as far as it can be given up for it."""

    OTHER = "other"
    """Between two requests, or the turn is ours."""
    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Standing:
    """What one look at a connection finds; `of` is the same object for as long as it is one go."""

    stage: Stage
    of: object
    moved_bytes: int
    """Bytes that came, or for an answer that were taken, since the connection began."""
    is_gone: bool = False
    """Whether nobody will say any more that it has ended."""


class Connection(Protocol):
    """One connection, as its protocol knows it."""

    def standing(self) -> Standing:
        """Return what it is at."""
        ...

    def give_up(self, stage: Stage) -> None:
        """End it for standing still."""
        ...


class Refusal(StrEnum):
    """Why a new connection is not taken."""

    ALL = "connections_max"
    CLIENT = "client_connections_max"


class _Watched:
    __slots__ = ("client", "connection", "moved_bytes", "of", "since_ms", "stage")

    def __init__(self, connection: Connection, client: str, now_ms: int) -> None:
        self.connection = connection
        self.client = client
        self.stage = Stage.OTHER
        self.of: object = None
        self.since_ms = now_ms
        self.moved_bytes = 0


class Connections:
    """The connections there are, and what was refused and given up since the start."""

    def __init__(self, rules: ConnectionRules, clock: Clock) -> None:
        """Know none yet."""
        self.rules = rules
        self._clock = clock
        self._watched: dict[Connection, _Watched] = {}
        self._of_client: Counter[str] = Counter()
        self._patience_ms = {
            Stage.HEAD: rules.head_ms,
            Stage.BODY: rules.body_ms,
            Stage.ANSWER: rules.send_ms,
        }
        self.refused: Counter[Refusal] = Counter()
        self.given_up: Counter[Stage] = Counter()
        self._refusals = _RareLine(clock)
        self._ends = _RareLine(clock)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._watched)

    def __iter__(self) -> Iterator[Connection]:
        """Yield them, the eldest first."""
        return iter(list(self._watched))

    def open(self, connection: Connection, client: str) -> Refusal | None:
        """Take a connection, or say why not."""
        refusal = self._refusal_of(client)
        if refusal is not None:
            self.refused[refusal] += 1
            count = self._refusals.take()
            if count:
                extra = {"reason": str(refusal), "client": client, "count": count}
                _log.warning("connections_refused", extra=extra)
            return refusal
        self._watched[connection] = _Watched(connection, client, self._clock.monotonic_ms())
        self._of_client[client] += 1
        return None

    def close(self, connection: Connection) -> None:
        """Forget a connection; nothing happens for one that is not known."""
        watched = self._watched.pop(connection, None)
        if watched is None:
            return
        self._of_client[watched.client] -= 1
        if not self._of_client[watched.client]:
            del self._of_client[watched.client]

    def look(self) -> None:
        """Give up what has stood still for too long, forget what is gone."""
        now_ms = self._clock.monotonic_ms()
        for watched in list(self._watched.values()):
            standing = watched.connection.standing()
            if standing.is_gone:
                self.close(watched.connection)
            elif self._stands_still(watched, standing, now_ms):
                self._give_up(watched)

    def _refusal_of(self, client: str) -> Refusal | None:
        rules = self.rules
        if len(self._watched) >= rules.connections_max:
            return Refusal.ALL
        is_full = 0 < rules.client_connections_max <= self._of_client[client]
        if is_full and not rules.has_many_clients(client):
            return Refusal.CLIENT
        return None

    def _stands_still(self, watched: _Watched, standing: Standing, now_ms: int) -> bool:
        stage = standing.stage
        if stage is not watched.stage or standing.of is not watched.of:
            watched.stage, watched.of = stage, standing.of
            watched.since_ms, watched.moved_bytes = now_ms, standing.moved_bytes
            return False
        if stage is Stage.OTHER:
            return False
        patience_ms = self._patience_ms[stage]
        if now_ms - watched.since_ms < patience_ms:
            return False
        moved_bytes = standing.moved_bytes - watched.moved_bytes
        if stage is Stage.HEAD or moved_bytes * 1_000 < BYTES_PER_S_MIN * patience_ms:
            return True
        watched.since_ms, watched.moved_bytes = now_ms, standing.moved_bytes
        return False

    def _give_up(self, watched: _Watched) -> None:
        stage = watched.stage
        self.given_up[stage] += 1
        count = self._ends.take()
        if count:
            extra = {"stage": str(stage), "client": watched.client, "count": count}
            _log.warning("connections_given_up", extra=extra)
        # Given up once more only after as long again, where its end does not come.
        watched.since_ms = self._clock.monotonic_ms()
        watched.connection.give_up(stage)


class _RareLine:
    """Counts what happens, and says when a line of the log may tell how often it did."""

    __slots__ = ("_clock", "_count", "_next_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        self._next_ms = 0

    def take(self) -> int:
        """Count one; return how many there were since the last line when one is due, else 0."""
        self._count += 1
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return 0
        count, self._count = self._count, 0
        self._next_ms = now_ms + LOG_EVERY_MS
        return count
