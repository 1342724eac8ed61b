"""How long a failed message waits, and how often it may fail."""

import pytest

from apps.engine.broker.catalogfile import dump, load
from apps.engine.broker.retrypolicy import check_delay, delay_ms, is_over
from apps.engine.errors import InvalidArgument
from apps.engine.failuretypes import RetryPolicy
from apps.engine.limits import DELAY_LEVELS_MS
from apps.engine.types import CatalogSnapshot, GroupSpec

LEVELS = GroupSpec(name="g")
EXPONENTIAL = GroupSpec(name="g", retry_policy=RetryPolicy.EXPONENTIAL)
CUSTOM = GroupSpec(name="g", retry_policy=RetryPolicy.CUSTOM, retry_delays_ms=(7, 0, 900))


def test_levels_wait_as_rocketmq_does_four_and_three_quarter_hours_in_all() -> None:
    delays = [delay_ms(LEVELS, failures, DELAY_LEVELS_MS) for failures in range(16)]

    assert delays[:3] == [10_000, 30_000, 60_000]
    assert delays[-1] == 7_200_000
    assert sum(delays) == 17_140_000
    assert delay_ms(LEVELS, 400, DELAY_LEVELS_MS) == 7_200_000


def test_a_short_table_of_levels_repeats_its_last() -> None:
    assert [delay_ms(LEVELS, failures, (5, 6)) for failures in range(3)] == [6, 6, 6]


def test_exponential_doubles_up_to_two_hours() -> None:
    delays = [delay_ms(EXPONENTIAL, failures, DELAY_LEVELS_MS) for failures in (0, 1, 10, 11, 999)]

    assert delays == [5_000, 10_000, 5_120_000, 7_200_000, 7_200_000]


def test_a_list_of_ones_own_repeats_its_last() -> None:
    assert [delay_ms(CUSTOM, failures, DELAY_LEVELS_MS) for failures in (0, 1, 2, 3)] == [
        7, 0, 900, 900,
    ]  # fmt: skip
    empty = GroupSpec(name="g", retry_policy=RetryPolicy.CUSTOM)
    assert delay_ms(empty, 0, DELAY_LEVELS_MS) == 10_000


@pytest.mark.parametrize(
    ("spec", "failures", "over"),
    [
        (LEVELS, 16, False),
        (LEVELS, 17, True),
        (GroupSpec(name="g", retry_max=0), 1, True),
        (GroupSpec(name="g", ordered=True), 1_000_000, False),
        (GroupSpec(name="g", ordered=True, retry_max=2), 3, True),
    ],
)
def test_a_message_may_fail_once_more_than_it_is_retried(
    spec: GroupSpec, failures: int, *, over: bool
) -> None:
    assert is_over(spec, failures) is over


@pytest.mark.parametrize(("level", "asked_ms"), [(1, 1), (-2, None), (None, -1), (None, 11)])
def test_a_delay_nobody_may_ask_for_is_refused(level: int | None, asked_ms: int | None) -> None:
    with pytest.raises(InvalidArgument):
        check_delay(level, asked_ms, delay_ms_max=10)


def test_the_policy_is_kept_with_the_catalog_and_has_a_default_in_older_files() -> None:
    content = dump(CatalogSnapshot(version=3, groups={"g": CUSTOM}))
    assert load(content).groups == {"g": CUSTOM}

    (row,) = content["groups"]  # type: ignore[misc]
    del row["retry_policy"], row["retry_delays_ms"]
    assert load(content).groups == {"g": LEVELS}
