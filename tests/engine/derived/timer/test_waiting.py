"""Rows in memory against a sorted list."""

import random
from bisect import insort

import numpy as np
import pytest

from apps.engine.derived.timer.rows import FROM_LOG, ROW, Rows, joined
from apps.engine.derived.timer.waiting import WaitingRows


def rows_at(pairs: list[tuple[int, int]], source: int) -> Rows:
    rows = np.zeros(len(pairs), dtype=ROW)
    rows["at_ms"] = rows["due_ms"] = [at for at, _ in pairs]
    rows["number"] = [number for _, number in pairs]
    rows["source"] = source
    return rows


def everything(waiting: WaitingRows) -> Rows:
    rows = joined(waiting.parts())
    return rows[waiting.is_alive(rows)]


def keys(rows: Rows) -> list[tuple[int, int]]:
    return list(zip(rows["at_ms"].tolist(), rows["number"].tolist(), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_rows_come_as_from_a_sorted_list(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    waiting, model, number, now_ms = WaitingRows(), list[tuple[int, int]](), 0, 0
    source_of: dict[int, int] = {}
    for _ in range(200):
        match rng.randrange(5):
            case 0 | 1:
                pairs = [(now_ms + rng.randrange(30), number + n) for n in range(rng.randrange(9))]
                rng.shuffle(pairs)
                number += len(pairs)
                source = rng.choice((FROM_LOG, FROM_LOG, 4, 5))
                waiting.add(rows_at(pairs, source))
                for pair in pairs:
                    insort(model, pair)
                    source_of[pair[1]] = source
            case 2 if model:
                at_ms, gone = model.pop(rng.randrange(len(model)))
                row = waiting.find(gone, at_ms)
                assert row is not None
                waiting.kill(row)
                assert waiting.find(gone, at_ms) is None
            case 3:
                below, gone = rng.randrange(number + 2), rng.choice((set[int](), {4}, {4, 5}))
                waiting.drop(FROM_LOG, below, gone)
                model = [
                    (at_ms, n)
                    for at_ms, n in model
                    if source_of[n] not in gone and (source_of[n] != FROM_LOG or n >= below)
                ]
            case _:
                now_ms += rng.randrange(12)
                most = rng.randrange(1, 12)
                found = waiting.due(now_ms, most)
                alive = keys(found[waiting.is_alive(found)])
                assert alive == [pair for pair in model if pair[0] <= now_ms][: len(alive)]
                assert len(found) == most or alive == [p for p in model if p[0] <= now_ms]
                if len(found):
                    waiting.remove_until(found[-1])
                    model = model[len(alive) :]
        assert len(waiting) == len(model)
        assert sorted(keys(everything(waiting))) == model
        moments = np.array([now_ms - 1, now_ms + 5, now_ms + 100])
        expected = [sum(at <= moment for at, _ in model) for moment in moments.tolist()]
        assert waiting.counts(moments).tolist() == expected
        for source in (None, FROM_LOG, 4):
            waits = [n for _, n in model if source in (None, source_of[n])]
            first = waiting.first_number(source)
            assert not waits or (first is not None and first <= min(waits))
        assert waiting.count_behind(now_ms + 9) >= sum(at > now_ms + 9 for at, _ in model)
        start, stop = now_ms + 2, now_ms + 20
        assert sorted(keys(waiting.between(start, stop))) == [
            pair for pair in model if start <= pair[0] < stop
        ]


def test_many_rows_are_a_few_tables() -> None:
    waiting = WaitingRows()
    rng = np.random.default_rng(1)
    for first in range(0, 200_000, 1_000):
        rows = np.zeros(1_000, dtype=ROW)
        rows["at_ms"] = rows["due_ms"] = rng.integers(0, 10**9, size=1_000)
        rows["number"] = np.arange(first, first + 1_000)
        waiting.add(rows)

    assert len(waiting) == 200_000
    assert len(waiting._tables) < 20
    assert waiting.first_number() == waiting.first_number(0) == 0
    assert waiting.first_number(FROM_LOG) is None
    assert keys(waiting.due(10**9, 3)) == sorted(keys(everything(waiting)))[:3]
