"""A group's progress in one queue, against a set of numbers."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from apps.engine.broker.journal import offsets_of, runs_of
from apps.engine.broker.progress import QueueProgress


def offsets(*numbers: int) -> "np.ndarray":
    return np.array(numbers, dtype=np.int64)


def test_the_floor_waits_for_the_first_unsettled_message() -> None:
    progress = QueueProgress("g", "t", 0, start=10)
    progress.advance(14, offsets(10, 11, 12, 13))

    progress.settle(offsets(11, 12))
    waiting = progress.floor
    progress.settle(offsets(10))

    assert waiting == 10
    assert progress.floor == 13
    assert progress.cursor == 14


def test_messages_passed_over_by_a_filter_count_as_settled() -> None:
    progress = QueueProgress("g", "t", 0, start=0)

    progress.advance(100, offsets(40))

    assert progress.floor == 40
    progress.settle(offsets(40))
    assert progress.floor == 100


def test_a_jump_back_forgets_what_was_settled() -> None:
    progress = QueueProgress("g", "t", 0, start=0)
    progress.advance(5, offsets(0, 1, 2, 3, 4))
    progress.settle(offsets(3))

    progress.jump(2)
    progress.advance(4, offsets(2, 3))

    assert (progress.floor, progress.cursor) == (2, 4)
    assert progress.settled_runs.tolist() == []


def test_raising_the_floor_keeps_what_lies_above() -> None:
    progress = QueueProgress("g", "t", 0, start=0)
    progress.advance(6, np.arange(6))
    progress.settle(offsets(4))

    progress.raise_to(3)

    assert progress.floor == 3
    assert progress.settled_runs.tolist() == [[4, 4]]
    progress.raise_to(50)
    assert (progress.floor, progress.cursor) == (50, 50)


@given(st.lists(st.tuples(st.integers(1, 90), st.sets(st.integers(0, 400))), max_size=12))
def test_progress_agrees_with_a_set(steps: list[tuple[int, set[int]]]) -> None:
    progress = QueueProgress("g", "t", 0, start=0)
    cursor, settled = 0, set()
    for width, acked in steps:
        progress.advance(cursor + width, np.arange(cursor, cursor + width))
        cursor += width
        progress.settle(np.array(sorted(acked), dtype=np.int64))
        settled |= {offset for offset in acked if offset < cursor}

        floor = next(o for o in range(cursor + 1) if o not in settled)
        assert (progress.floor, progress.cursor) == (floor, cursor)
        expected = sorted(offset for offset in settled if offset >= floor)
        assert offsets_of(progress.settled_runs).tolist() == expected


@given(st.sets(st.integers(0, 200)))
def test_runs_and_offsets_are_the_same_thing(numbers: set[int]) -> None:
    ordered = np.array(sorted(numbers), dtype=np.int64)

    assert offsets_of(runs_of(ordered)).tolist() == ordered.tolist()
