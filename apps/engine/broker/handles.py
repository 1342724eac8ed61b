"""Receipt handles: `<lease>.<epoch>-<check>:<first>[-<last>]`. Knows text and checksums only.

The check ties a handle to store, group, lease and epoch, so a handle from elsewhere is told from
one that is merely too old. The epoch keeps apart two leases of one number: a power cut may take
back the record that named the first.
"""

import re
from dataclasses import dataclass

from apps.engine.codec.checksum import crc32

_HANDLE = re.compile(
    r"([0-9a-f]{1,15})\.([0-9a-f]{1,8})-([0-9a-f]{8}):([0-9]{1,18})(?:-([0-9]{1,18}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """One lease and a run of queue offsets, ends included."""

    lease: int
    epoch: int
    first: int
    last: int


class Handles:
    """Issue and read the handles of one store."""

    def __init__(self, store_id: str) -> None:
        """Bind to a store."""
        self._store_id = store_id

    def token(self, group: str, lease: int, epoch: int) -> str:
        """Return the part of a handle that names the lease."""
        return f"{lease:x}.{epoch:x}-{self._check(group, lease, epoch):08x}"

    def lease_of(self, token: str) -> int:
        """Return the lease that a token of this store's names."""
        return int(token.partition(".")[0], 16)

    def parse(self, group: str, text: str) -> Handle | None:
        """Return what a handle names; None when it was not issued by this store for `group`."""
        match = _HANDLE.fullmatch(text)
        if match is None:
            return None
        lease, epoch, first = int(match[1], 16), int(match[2], 16), int(match[4])
        last = int(match[5]) if match[5] else first
        if last < first or int(match[3], 16) != self._check(group, lease, epoch):
            return None
        return Handle(lease=lease, epoch=epoch, first=first, last=last)

    def _check(self, group: str, lease: int, epoch: int) -> int:
        return crc32(f"{self._store_id}/{group}/{lease}/{epoch}".encode())
