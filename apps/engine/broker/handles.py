"""Receipt handles: `<lease>-<check>:<first>[-<last>]`. Knows text and checksums only.

The check ties a handle to store, group and lease, so a handle from elsewhere is told from one
that is merely too old.
"""

import re
from dataclasses import dataclass

from apps.engine.codec.checksum import crc32

_HANDLE = re.compile(r"([0-9a-f]{1,15})-([0-9a-f]{8}):([0-9]{1,18})(?:-([0-9]{1,18}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """One lease and a run of queue offsets, ends included."""

    lease: int
    first: int
    last: int


class Handles:
    """Issue and read the handles of one store."""

    def __init__(self, store_id: str) -> None:
        """Bind to a store."""
        self._store_id = store_id

    def token(self, group: str, lease: int) -> str:
        """Return the part of a handle that names the lease."""
        return f"{lease:x}-{self._check(group, lease):08x}"

    def parse(self, group: str, text: str) -> Handle | None:
        """Return what a handle names; None when it was not issued by this store for `group`."""
        match = _HANDLE.fullmatch(text)
        if match is None:
            return None
        lease, first = int(match[1], 16), int(match[3])
        last = int(match[4]) if match[4] else first
        if last < first or int(match[2], 16) != self._check(group, lease):
            return None
        return Handle(lease=lease, first=first, last=last)

    def _check(self, group: str, lease: int) -> int:
        return crc32(f"{self._store_id}/{group}/{lease}".encode())
