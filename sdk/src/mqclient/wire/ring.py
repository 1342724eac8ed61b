"""A ring of hashes: who comes or goes moves few keys. Knows text and numbers only."""

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from typing import Generic, TypeVar

_Owner = TypeVar("_Owner")


def ring_hash(text: str) -> int:
    """Return the first four bytes, big-endian, of the MD5 of a text, as RocketMQ does."""
    digest = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    return int.from_bytes(digest.digest()[:4], "big")


class HashRing(Generic[_Owner]):
    """Each owner has points at the hashes of `<owner>-0`, `<owner>-1` and so on."""

    def __init__(self, owners: Iterable[_Owner], *, virtual_nodes: int) -> None:
        """Lay out the points; of two at one place the later owner's counts. Needs an owner."""
        at: dict[int, _Owner] = {}
        for owner in owners:
            for node in range(virtual_nodes):
                at[ring_hash(f"{owner}-{node}")] = owner
        self._hashes = sorted(at)
        self._owners = [at[found] for found in self._hashes]

    def owner_of(self, text: str) -> _Owner:
        """Return whose point is the first at or behind the text's hash, round the end."""
        index = bisect_left(self._hashes, ring_hash(text))
        return self._owners[index if index < len(self._owners) else 0]
