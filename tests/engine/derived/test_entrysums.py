"""Any part of a file of entries is proven, whatever it begins with and however it was written."""

import random

import pytest

from apps.engine.codec.layout import QUEUE_ENTRY_BYTES as SIZE
from apps.engine.derived.entrysums import MARK_ENTRIES, EntrySums


def written(rng: random.Random, first: int, count: int) -> tuple[EntrySums, bytes]:
    """Return what was written in parts of any length."""
    data, sums, at = rng.randbytes(count * SIZE), EntrySums(first), 0
    while at < count:
        some = min(count - at, rng.choice([1, 7, 100, 512, 1500]))
        sums.add(data[at * SIZE : (at + some) * SIZE])
        at += some
    return sums, data


@pytest.mark.parametrize("first", [0, 1, 511, 512, 513, 1024, 300_000])
def test_every_read_is_proven_and_no_other_bytes_are(first: int) -> None:
    rng = random.Random(first)
    sums, data = written(rng, first, 1700)
    for _ in range(200):
        start = first + rng.randrange(1700)
        stop = rng.randrange(start, first + 1700) + 1
        low, high = sums.around(start, stop)
        part = bytearray(data[(low - first) * SIZE : (high - first) * SIZE])

        assert first <= low <= start < stop <= high <= sums.stop
        assert high - low < stop - start + 2 * MARK_ENTRIES
        assert sums.proves(part, low)
        part[rng.randrange(len(part))] ^= 1 << rng.randrange(8)
        assert not sums.proves(part, low)


@pytest.mark.parametrize("first", [0, 5, 512, 700])
def test_what_is_right_ends_at_the_mark_before_the_first_damage(first: int) -> None:
    rng = random.Random(first)
    sums, data = written(rng, first, 2000)
    bad = first + 1300
    rotten = bytearray(data)
    rotten[1300 * SIZE] ^= 4

    proven = sums.proven(rotten)

    assert proven == bad - bad % MARK_ENTRIES
    assert sums.proven(data) == sums.proven(data + b"more") == sums.stop
    assert sums.proven(data[:-1]) < sums.stop
    assert sums.proven(b"") == first
    again = sums.cut(proven)
    again.add(data[(proven - first) * SIZE :])
    assert (again.first, again.stop, again.crc) == (sums.first, sums.stop, sums.crc)
    assert again.proven(data) == sums.stop
