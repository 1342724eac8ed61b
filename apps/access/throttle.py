"""How often a password may be wrong. Knows names and a clock; nothing is written down."""

from collections import OrderedDict, deque

from apps.engine.clock import Clock

WINDOW_MS = 15 * 60_000
ACCOUNT_FAILURES_MAX = 10
ADDRESS_FAILURES_MAX = 50
# Whoever makes up names must not fill the memory; the oldest are forgotten first.
_KEYS_MAX = 20_000


class Failures:
    """The wrong passwords of the last 15 minutes, by account and by address."""

    def __init__(self, clock: Clock) -> None:
        """Know of none."""
        self._clock = clock
        self._at_ms: OrderedDict[tuple[str, str], deque[int]] = OrderedDict()

    def wait_ms(self, account: str, address: str) -> int:
        """Return how long nobody is let in with this name, or from there; 0 when they may try."""
        return max(
            self._wait_ms(("account", account.lower()), ACCOUNT_FAILURES_MAX),
            self._wait_ms(("address", address), ADDRESS_FAILURES_MAX),
        )

    def note(self, account: str, address: str) -> None:
        """Count a wrong password."""
        now_ms = self._clock.monotonic_ms()
        for key in (("account", account.lower()), ("address", address)):
            self._at_ms.setdefault(key, deque(maxlen=ADDRESS_FAILURES_MAX)).append(now_ms)
            self._at_ms.move_to_end(key)
        while len(self._at_ms) > _KEYS_MAX:
            self._at_ms.popitem(last=False)

    def forgive(self, account: str) -> None:
        """Forget an account's, after a good password."""
        self._at_ms.pop(("account", account.lower()), None)

    def _wait_ms(self, key: tuple[str, str], failures_max: int) -> int:
        found = self._at_ms.get(key)
        if found is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        while found and now_ms - found[0] >= WINDOW_MS:
            found.popleft()
        if not found:
            del self._at_ms[key]
            return 0
        return 0 if len(found) < failures_max else found[-failures_max] + WINDOW_MS - now_ms
