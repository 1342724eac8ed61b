"""Which producers can be asked about their transactions: who waits for checks, or did lately.

Knows groups, clients and the clock; a restart begins with nobody.
"""

from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager

from apps.engine.clock import Clock

# Who asked so lately counts as there, though it is not waiting at this moment: it is answering.
_LATELY_MS = 30_000


class Producers:
    """Clients of producer groups. Bounded by how many can ask in half a minute."""

    def __init__(self, clock: Clock) -> None:
        """Know nobody."""
        self._clock = clock
        self._waiting: dict[str, Counter[str]] = {}
        # In order of when they were seen, so that those to forget come first.
        self._seen_ms: dict[tuple[str, str], int] = {}

    @property
    def waiting_groups(self) -> Set[str]:
        """Return the groups of which a client waits for checks."""
        return self._waiting.keys()

    def see(self, producer_group: str, client_id: str) -> None:
        """Note that a client asks now."""
        now_ms = self._clock.monotonic_ms()
        self._seen_ms.pop((producer_group, client_id), None)
        self._seen_ms[producer_group, client_id] = now_ms
        while True:
            key, seen_ms = next(iter(self._seen_ms.items()))
            if seen_ms >= now_ms - _LATELY_MS:
                return
            del self._seen_ms[key]

    @contextmanager
    def waiting(self, producer_group: str, client_id: str) -> Iterator[None]:
        """Count a client as waiting for checks for the time of the block."""
        clients = self._waiting.setdefault(producer_group, Counter())
        clients[client_id] += 1
        try:
            yield
        finally:
            clients[client_id] -= 1
            if not clients[client_id]:
                del clients[client_id]
            if not clients:
                del self._waiting[producer_group]
            self.see(producer_group, client_id)

    def count(self, producer_group: str) -> int:
        """Return how many clients of a group can be asked."""
        since_ms = self._clock.monotonic_ms() - _LATELY_MS
        there = set(self._waiting.get(producer_group, ()))
        for (group, client_id), seen_ms in self._seen_ms.items():
            if group == producer_group and seen_ms >= since_ms:
                there.add(client_id)
        return len(there)
