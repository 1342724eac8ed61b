"""How much one client may ask for: a second, and at once. Knows a clock; no protocol, no address.

A client is whatever name its door gives it: an account, or an address where there is none. Every
door of the process asks the same object, so that a client has one allowance and not one a door.
"""

from dataclasses import dataclass

from apps.engine.clock import Clock

# An allowance that was not used is kept for so long, and can then be spent at once.
BURST_MS = 1_000
# A client that has too much under way is told to come back so much later: nobody knows when.
OPEN_WAIT_MS = 1_000
# Above this, clients that have nothing under way and a whole allowance are forgotten.
CLIENTS_MAX = 10_000
# Thirds of a second do not add up to one.
_ROUNDING_MS = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRates:
    """What one client may have; 0 is any number."""

    requests_per_s: int = 0
    bytes_per_s: int = 0
    """Bytes of bodies that come in."""
    requests_max: int = 0
    """Requests under way at once, parked ones among them."""

    @property
    def are_any(self) -> bool:
        """Say whether anything is limited."""
        return bool(self.requests_per_s or self.bytes_per_s or self.requests_max)


class TooMany(Exception):
    """A client has used up an allowance; after `wait_ms` there is some of it again."""

    def __init__(self, detail: str, wait_ms: int) -> None:
        """Keep the sentence and the wait."""
        super().__init__(detail)
        self.wait_ms = wait_ms

    @property
    def retry_after_s(self) -> int:
        """Return the wait in whole seconds, as `Retry-After` has it; 1 at least."""
        return max(1, -(-self.wait_ms // 1_000))


class _Client:
    """One client: when its two buckets are full again, and how many requests it has open."""

    __slots__ = ("bytes_full_ms", "open_count", "requests_full_ms")

    def __init__(self) -> None:
        self.requests_full_ms = 0.0
        self.bytes_full_ms = 0.0
        self.open_count = 0


class ClientLimits:
    """Token buckets and open requests of every client.

    A bucket is one number, the moment at which it is full again: that lies ahead of now by what
    was spent, in time. A request may be begun when its price in requests fits and the bucket of
    bytes is not empty; bytes may then overdraw it, or a large batch could never be sent.
    """

    def __init__(self, rates: ClientRates, clock: Clock, *, clients_max: int = CLIENTS_MAX) -> None:
        """Know no client yet."""
        self._rates = rates
        self._clock = clock
        self._clients: dict[str, _Client] = {}
        self._clients_max = clients_max
        self.refused_count = 0

    def __len__(self) -> int:
        """Return how many clients are known."""
        return len(self._clients)

    def enter(self, name: str, coming_bytes: int = 0) -> None:
        """Begin a request with a body of so many bytes; every one must `leave`.

        Raises TooMany, and then nothing was begun or spent.
        """
        now_ms = self._clock.monotonic_ms()
        client = self._clients.get(name)
        if client is None:
            self._make_room(now_ms)
            client = self._clients[name] = _Client()
        try:
            self._check(client, now_ms)
        except TooMany:
            self.refused_count += 1
            raise
        rates = self._rates
        client.open_count += 1
        if rates.requests_per_s:
            price_ms = 1_000 / rates.requests_per_s
            client.requests_full_ms = max(client.requests_full_ms, now_ms) + price_ms
        self._spend(client, coming_bytes, now_ms)

    def spend(self, name: str, size_bytes: int) -> None:
        """Count bytes that were not announced; the client must have a request under way."""
        self._spend(self._clients[name], size_bytes, self._clock.monotonic_ms())

    def leave(self, name: str) -> None:
        """End a request."""
        self._clients[name].open_count -= 1

    def _check(self, client: _Client, now_ms: int) -> None:
        rates = self._rates
        if rates.requests_max and client.open_count >= rates.requests_max:
            detail = f"a client may have {rates.requests_max} requests under way"
            raise TooMany(detail, OPEN_WAIT_MS)
        if rates.requests_per_s:
            price_ms = 1_000 / rates.requests_per_s
            ahead_ms = max(client.requests_full_ms - now_ms, 0.0)
            over_ms = ahead_ms + price_ms - max(BURST_MS, price_ms)
            if over_ms > _ROUNDING_MS:
                detail = f"a client may begin {rates.requests_per_s} requests a second"
                raise TooMany(detail, int(over_ms) + 1)
        if rates.bytes_per_s:
            over_ms = client.bytes_full_ms - now_ms - BURST_MS
            if over_ms >= 0:
                detail = f"a client may send {rates.bytes_per_s} bytes a second"
                raise TooMany(detail, int(over_ms) + 1)

    def _spend(self, client: _Client, size_bytes: int, now_ms: int) -> None:
        if self._rates.bytes_per_s:
            price_ms = size_bytes * 1_000 / self._rates.bytes_per_s
            client.bytes_full_ms = max(client.bytes_full_ms, now_ms) + price_ms

    def _make_room(self, now_ms: int) -> None:
        """Forget who is like a client never seen; where that frees nothing, the eldest at rest."""
        if len(self._clients) < self._clients_max:
            return
        at_rest = [name for name, client in self._clients.items() if not client.open_count]
        idle = [
            name
            for name in at_rest
            if max(self._clients[name].requests_full_ms, self._clients[name].bytes_full_ms)
            <= now_ms
        ]
        for name in idle or at_rest[:1]:
            del self._clients[name]
