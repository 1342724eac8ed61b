"""Message bodies that prove what arrived: made before a measurement, checked after it."""

import random
from collections.abc import Iterable

_INDEX_BYTES = 8
_SEED = 20


def make(count: int, size_bytes: int) -> list[bytes]:
    """Return bodies of equal size, each beginning with its own index."""
    filler = _filler(size_bytes)
    return [index.to_bytes(_INDEX_BYTES) + filler for index in range(count)]


def index_of(body: bytes) -> int:
    """Return the index that a body begins with."""
    return int.from_bytes(body[:_INDEX_BYTES])


def fault(found: Iterable[bytes], *, count: int, size_bytes: int) -> str:
    """Say how what arrived differs from what `make` made; empty when every body came once."""
    filler = _filler(size_bytes)
    times = bytearray(count)
    altered = duplicated = 0
    for body in found:
        index = index_of(body)
        if index >= count or body[_INDEX_BYTES:] != filler:
            altered += 1
        elif times[index]:
            duplicated += 1
        else:
            times[index] = 1
    lost = times.count(0)
    if not (lost or duplicated or altered):
        return ""
    return f"lost {lost}, duplicated {duplicated}, altered {altered} of {count}"


def _filler(size_bytes: int) -> bytes:
    assert size_bytes > _INDEX_BYTES
    return random.Random(_SEED).randbytes(size_bytes - _INDEX_BYTES)
