"""Message identifiers. Knows RocketMQ's two forms; takes time and address as values."""

import itertools
import os
import secrets
import struct

_MONTH_MS = 31 * 86_400_000


class MessageIds:
    """Make RocketMQ client ids: IPv4, pid, client hash, ms of the month, counter; 32 hex digits."""

    def __init__(self, *, host: bytes = b"\x7f\x00\x00\x01") -> None:
        """Bind to this process; a fork gets a prefix of its own at its first id."""
        self._host = host
        self._pid = -1
        self._prefix = ""
        self._counter = itertools.count()

    def new(self, *, wall_ms: int) -> str:
        """Return an id no other call returns, in this process or by pid and hash in another."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            packed = struct.pack(">4sH4s", self._host, self._pid & 0xFFFF, secrets.token_bytes(4))
            self._prefix = packed.hex().upper()
        # 31 days, the longest month, of milliseconds fit 32 bits; the wrap is the month's change.
        since_ms = wall_ms % _MONTH_MS
        return f"{self._prefix}{since_ms:08X}{next(self._counter) & 0xFFFF:04X}"


def offset_id(store_host: bytes, log_offset: int) -> str:
    """Return RocketMQ's offset id: upper-case hex of store host (8 bytes) and physical offset."""
    return f"{store_host.hex().upper()}{log_offset:016X}"


def host_bytes(address: str, port: int) -> bytes:
    """Return IPv4 address and port as a record keeps them; 0.0.0.0 for anything else than IPv4."""
    parts = address.split(".")
    try:
        packed = bytes(int(part) for part in parts) if len(parts) == 4 else bytes(4)
    except ValueError:
        packed = bytes(4)
    return packed + struct.pack(">i", port)
