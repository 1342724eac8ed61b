"""Records that lie apart come together as they are, however far apart and however long."""

import random

import numpy as np
import pytest

from apps.engine.log.gather import gather


class _Bytes:
    """A log of bytes that all differ from their neighbours."""

    def __init__(self) -> None:
        self.data = np.random.default_rng(7).integers(0, 256, 1 << 20, dtype=np.uint8)
        self.reads = 0

    def read_into(self, offset: int, target: memoryview, *, wait: bool = True) -> None:
        del wait
        self.reads += 1
        target[:] = self.data[offset : offset + len(target)].data


@pytest.mark.parametrize("seed", range(20))
def test_what_is_gathered_is_each_record_in_the_order_asked_for(seed: int) -> None:
    rng = random.Random(seed)
    log, at, spans = _Bytes(), 0, []
    while at < 700_000:
        size = rng.choice([1, 91, 1_000, 40_000])
        spans.append((at, size))
        at += size + rng.choice([0, 0, 0, 200, 20_000])
    if seed % 4 == 3:
        rng.shuffle(spans)
    places = np.array([start for start, _ in spans], dtype=np.int64)
    sizes = np.array([size for _, size in spans], dtype=np.int32)

    found = gather(log, places, sizes, wait=True)

    assert bytes(found) == b"".join(
        log.data[start : start + size].tobytes() for start, size in spans
    ), f"seed {seed}"


def test_records_right_behind_each_other_are_one_read() -> None:
    log = _Bytes()

    gather(log, np.arange(5, 500_005, 100), np.full(5_000, 100, dtype=np.int32), wait=True)

    assert log.reads == 1


def test_nothing_is_gathered_of_no_records() -> None:
    assert not len(gather(_Bytes(), np.empty(0, np.int64), np.empty(0, np.int32), wait=True))
