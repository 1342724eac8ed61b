"""How an alert goes on: what makes it pending, firing and over, and what changes nothing."""

import random

from apps.alerts.judging import CLEAR_MS, Standing, State, Terms, gone, judged

TERMS = Terms(threshold=100, pending_ms=10_000)


def after(*looks: tuple[int, float | None], terms: Terms = TERMS) -> Standing | None:
    """Return how an alert stands after looks at moments, each with its value."""
    standing: Standing | None = None
    for now_ms, value in looks:
        standing = judged(standing, value, terms, now_ms=now_ms)
    return standing


def state(*looks: tuple[int, float | None]) -> State | None:
    standing = after(*looks)
    return None if standing is None else standing.state


def test_below_the_threshold_there_is_no_alert() -> None:
    assert state((0, 99.9)) is None


def test_from_the_threshold_on_it_is_pending_and_fires_when_it_has_lasted() -> None:
    assert state((0, 100)) is State.PENDING
    assert state((0, 100), (9_999, 500)) is State.PENDING
    assert state((0, 100), (10_000, 100)) is State.FIRING


def test_without_a_time_to_wait_it_fires_at_once() -> None:
    standing = after((0, 100), terms=Terms(threshold=100, pending_ms=0))

    assert standing is not None
    assert standing.state is State.FIRING


def test_one_that_was_pending_leaves_no_trace() -> None:
    assert after((0, 100), (5_000, 99)) is None


def test_one_that_fires_is_over_when_it_was_below_for_long_enough() -> None:
    fires = ((0, 100.0), (10_000, 100.0))

    assert state(*fires, (15_000, 0)) is State.FIRING
    assert state(*fires, (15_000, 0), (15_000 + CLEAR_MS - 1, 0)) is State.FIRING
    assert state(*fires, (15_000, 0), (15_000 + CLEAR_MS, 0)) is State.RESOLVED


def test_a_value_that_comes_back_begins_the_wait_for_the_end_anew() -> None:
    looks = ((0, 100), (10_000, 100), (15_000, 0), (20_000, 100), (25_000, 0), (30_000, 0))

    assert state(*looks) is State.FIRING


def test_an_unknown_value_neither_begins_nor_fires_nor_ends_anything() -> None:
    hour_ms = 3_600_000

    assert state((0, None)) is None
    assert state((0, 100), (hour_ms, None)) is State.PENDING
    assert state((0, 100), (10_000, 100), (hour_ms, None)) is State.FIRING
    assert state((0, 100), (10_000, 100), (15_000, 0), (hour_ms, None)) is State.FIRING


def test_it_says_since_when_the_value_is_unknown_and_forgets_it_when_it_is_known() -> None:
    unknown = after((0, 100), (5_000, None), (10_000, None))
    known = after((0, 100), (5_000, None), (10_000, 100))

    assert unknown is not None
    assert known is not None
    assert (unknown.unknown_ms, known.unknown_ms) == (5_000, None)


def test_time_in_which_nobody_knew_counts_for_nothing() -> None:
    # Five seconds above, a minute unknown: five more are needed.
    blind = ((0, 100.0), (5_000, None), (65_000, 100.0))

    assert state(*blind) is State.PENDING
    assert state(*blind, (69_999, 100)) is State.PENDING
    assert state(*blind, (70_000, 100)) is State.FIRING


def test_time_in_which_nobody_knew_does_not_end_it_either() -> None:
    looks = ((0, 100), (10_000, 100), (15_000, 0), (20_000, None), (80_000, 0))

    assert state(*looks) is State.FIRING


def test_a_subject_that_is_gone_ends_what_fires_and_forgets_what_was_pending() -> None:
    pending, firing = after((0, 100)), after((0, 100), (10_000, 100))
    assert pending is not None
    assert firing is not None

    ended = gone(firing)

    assert gone(pending) is None
    assert ended is not None
    assert ended.state is State.RESOLVED


def test_it_fires_when_the_looks_that_saw_it_above_add_up_against_a_slow_model() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    fired = 0
    for _ in range(500):
        values = [rng.choice((None, None, 50.0, 150.0, 150.0, 150.0)) for _ in range(40)]
        looks = [(number * 2_000, value) for number, value in enumerate(values)]

        fires_at = next((n for n in range(1, 41) if state(*looks[:n]) is State.FIRING), None)

        assert fires_at == first_fire(values)
        fired += fires_at is not None
    assert fired > 0


def first_fire(values: list[float | None]) -> int | None:
    """Return after how many looks, 2 s apart, it fires: a model that counts seconds."""
    lasted_ms: int | None = None
    for number, value in enumerate(values):
        was_known = number > 0 and values[number - 1] is not None
        if value is None:
            # The stretch up to the first look that knew nothing was still known to its beginning.
            lasted_ms = None if lasted_ms is None else lasted_ms + (2_000 if was_known else 0)
        elif value < 100:
            lasted_ms = None
        else:
            lasted_ms = 0 if lasted_ms is None else lasted_ms + (2_000 if was_known else 0)
            if lasted_ms >= 10_000:
                return number + 1
    return None
