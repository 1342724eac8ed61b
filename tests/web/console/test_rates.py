"""What a rate is, and when it is unknown."""

import random

from apps.console.rates import RateWindow


def test_one_sample_makes_no_rate() -> None:
    window = RateWindow()

    window.add(1_000, {"a": 5})

    assert window.rate("a") is None


def test_a_rate_is_the_growth_over_the_window_per_second() -> None:
    window = RateWindow(window_ms=5_000)

    window.add(0, {"a": 0})
    window.add(1_000, {"a": 30})
    window.add(4_000, {"a": 200})

    assert window.rate("a") == 50


def test_what_is_older_than_the_window_no_longer_counts() -> None:
    window = RateWindow(window_ms=2_000)
    window.add(0, {"a": 0})
    window.add(1_000, {"a": 1_000})

    for second in range(2, 6):
        window.add(second * 1_000, {"a": 1_000})

    assert window.rate("a") == 0


def test_a_counter_that_stands_still_has_the_rate_zero_not_unknown() -> None:
    window = RateWindow()

    window.add(0, {"a": 7})
    window.add(1_000, {"a": 7})

    assert window.rate("a") == 0


def test_a_counter_that_fell_is_unknown_until_the_next_sample_and_never_negative() -> None:
    window = RateWindow()
    window.add(0, {"a": 500})
    window.add(1_000, {"a": 600})

    window.add(2_000, {"a": 10})
    after_the_fall = window.rate("a")
    window.add(3_000, {"a": 30})

    assert after_the_fall is None
    assert window.rate("a") == 20


def test_a_counter_that_fell_and_overtook_itself_between_samples_counts_from_the_fall() -> None:
    window = RateWindow()
    window.add(0, {"a": 100})
    window.add(1_000, {"a": 0})

    window.add(2_000, {"a": 400})

    assert window.rate("a") == 400


def test_a_counter_that_was_away_is_new_when_it_comes_back() -> None:
    window = RateWindow()
    window.add(0, {"a": 100})
    window.add(1_000, {})
    gone = window.rate("a")

    window.add(2_000, {"a": 900})

    assert gone is None
    assert window.rate("a") is None


def test_a_long_pause_between_two_samples_gives_the_average_over_it() -> None:
    window = RateWindow(window_ms=5_000)
    window.add(0, {"a": 0})

    window.add(60_000, {"a": 600})

    assert window.rate("a") == 10


def test_two_samples_of_one_moment_make_no_rate() -> None:
    window = RateWindow()

    window.add(1_000, {"a": 1})
    window.add(1_000, {"a": 9})

    assert window.rate("a") is None


def test_no_history_of_counters_gives_a_negative_rate() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    window = RateWindow()
    at_ms = 0

    for _ in range(2_000):
        at_ms += dice.choice((0, 1, 900, 1_000, 1_100, 20_000))
        window.add(at_ms, {key: dice.randrange(100) for key in "abc" if dice.random() < 0.8})

        for key in "abc":
            rate = window.rate(key)
            assert rate is None or rate >= 0
