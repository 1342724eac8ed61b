"""Slots, and which resolution answers a question."""

import pytest

from apps.core.moments import moment, ms_of
from apps.metrics.resolutions import FINE, HOUR, MINUTE, Resolution, best_resolution
from tests.web.metrics.fakes import START_MS

NOW_MS = START_MS
HOURS = HOUR.ms
DAYS = 24 * HOURS


@pytest.mark.parametrize(
    ("at_ms", "slot_ms"), [(0, 0), (4_999, 0), (5_000, 5_000), (12_345, 10_000), (-1, -5_000)]
)
def test_a_slot_begins_at_a_multiple_of_its_length(at_ms: int, slot_ms: int) -> None:
    assert FINE.slot_ms(at_ms) == slot_ms


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "resolution"),
    [
        (NOW_MS - HOURS, NOW_MS, FINE),
        (NOW_MS - 5_000_000, NOW_MS, FINE),
        (NOW_MS - 5_000_001, NOW_MS, MINUTE),
        # Fine rows of three hours ago are gone.
        (NOW_MS - 3 * HOURS, NOW_MS - 3 * HOURS + 1, MINUTE),
        (NOW_MS - 60_000_000, NOW_MS, MINUTE),
        (NOW_MS - 60_000_001, NOW_MS, HOUR),
        (NOW_MS - 8 * DAYS, NOW_MS - 8 * DAYS + 1, HOUR),
        # None is so coarse: the coarsest answers with more points.
        (NOW_MS - 400 * DAYS, NOW_MS, HOUR),
        (NOW_MS - 1_000 * DAYS, NOW_MS, HOUR),
    ],
)
def test_the_finest_that_is_kept_and_short_enough_answers(
    from_ms: int, to_ms: int, resolution: Resolution
) -> None:
    assert best_resolution(from_ms=from_ms, to_ms=to_ms, now_ms=NOW_MS) is resolution


@pytest.mark.parametrize("at_ms", [0, -1, 1, START_MS + 123, 253_402_300_799_999])
def test_moments_and_milliseconds_are_the_same_thing(at_ms: int) -> None:
    assert ms_of(moment(at_ms)) == at_ms
