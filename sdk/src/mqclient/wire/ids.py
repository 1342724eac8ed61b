"""Message ids made by the client: RocketMQ's 32 hex digits. Knows the process, not the broker.

bytes  content
4      IPv4 address of this machine
2      process id, low 16 bits
4      random number of this process, in place of Java's class-loader hash
4      milliseconds since the month began, UTC
2      counter, wraps
"""

import itertools
import os
import socket
import time
from functools import lru_cache

# From the blocks for documentation: never routed, so nothing is ever sent to it.
_NOWHERE = ("192.0.2.1", 9)
_LOOPBACK = bytes((127, 0, 0, 1))


@lru_cache(maxsize=1)
def local_address() -> bytes:
    """Return the IPv4 address this machine would send from, 127.0.0.1 when it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_NOWHERE)
            return socket.inet_aton(probe.getsockname()[0])
        except OSError:
            return _LOOPBACK


@lru_cache(maxsize=4)
def _month_start_ms(year: int, month: int) -> int:
    # Days from 1970 to the first of the month, by the civil calendar.
    year_shifted = year - (month <= 2)
    era, year_of_era = divmod(year_shifted, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return (era * 146_097 + day_of_era - 719_468) * 86_400_000


class IdMaker:
    """Makes unique keys; one for the process, renewed in a forked child."""

    __slots__ = ("_counter", "_month_end_ms", "_month_start_ms", "_prefix")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin anew, as a process that shares no id with its parent."""
        identity = local_address() + (os.getpid() & 0xFFFF).to_bytes(2) + os.urandom(4)
        self._prefix = identity.hex().upper().encode()
        self._counter = itertools.count(int.from_bytes(os.urandom(2)))
        self._month_start_ms = 0
        self._month_end_ms = 0

    def many(self, wall_ms: int, count: int) -> list[bytes]:
        """Return the next ids, each of 32 ASCII bytes."""
        if not self._month_start_ms <= wall_ms < self._month_end_ms:
            self._turn_month(wall_ms)
        start = b"%b%08X" % (self._prefix, wall_ms - self._month_start_ms)
        numbers = itertools.islice(self._counter, count)
        return [b"%b%04X" % (start, number & 0xFFFF) for number in numbers]

    def next(self, wall_ms: int) -> bytes:
        """Return the next id as 32 ASCII bytes."""
        if not self._month_start_ms <= wall_ms < self._month_end_ms:
            self._turn_month(wall_ms)
        return b"%b%08X%04X" % (
            self._prefix,
            wall_ms - self._month_start_ms,
            next(self._counter) & 0xFFFF,
        )

    def _turn_month(self, wall_ms: int) -> None:
        moment = time.gmtime(wall_ms // 1000)
        year, month = moment.tm_year, moment.tm_mon
        self._month_start_ms = _month_start_ms(year, month)
        self._month_end_ms = _month_start_ms(year + month // 12, month % 12 + 1)


IDS = IdMaker()
os.register_at_fork(after_in_child=IDS.renew)
