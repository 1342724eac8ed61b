"""Of runs that tell of the same time one counts, and plots say what numbers say."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.console import plots
from apps.console.templatetags import mq
from apps.pipelines.models import PipelineRun
from apps.pipelines.selectors.results import apart

START = datetime(2025, 1, 1, tzinfo=UTC)


def a_run(number: int, first: int, end: int, *topics: str) -> PipelineRun:
    return PipelineRun(
        pk=number,
        window_start=START + timedelta(hours=first),
        window_end=START + timedelta(hours=end),
        topics=list(topics),
    )


@pytest.mark.parametrize(
    ("runs", "taken"),
    [
        ([a_run(1, 0, 1), a_run(2, 1, 2)], [1, 2]),
        ([a_run(1, 0, 1), a_run(2, 0, 1)], [2]),
        ([a_run(1, 0, 1), a_run(2, 1, 2), a_run(3, 0, 2)], [3]),
        ([a_run(1, 0, 3), a_run(2, 2, 4), a_run(3, 3, 4)], [1, 3]),
        ([a_run(1, 0, 1, "a"), a_run(2, 0, 1, "b")], [1, 2]),
        ([a_run(1, 0, 1, "a", "b"), a_run(2, 0, 1, "b")], [2]),
        ([a_run(1, 0, 9, "a"), a_run(2, 0, 1)], [2]),
        ([], []),
    ],
)
def test_no_moment_of_a_topic_counts_twice(runs: list[PipelineRun], taken: list[int]) -> None:
    assert [run.pk for run in apart(runs)] == taken


def test_a_line_is_broken_where_a_value_is_unknown() -> None:
    drawn = plots.path([1, 2, None, 4], highest=4, width=300, height=104)

    assert drawn == "M0.0 77.0L100.0 52.0M300.0 2.0h0"


def test_columns_are_as_tall_as_their_numbers_and_the_even_line_is_among_them() -> None:
    drawn = plots.columns("t", ["0", "1"], [("messages", [300, 100])], even=200)

    tall = [column.parts[0].height for column in drawn.columns]
    assert tall[0] == pytest.approx(3 * tall[1], abs=0.2)
    assert drawn.line_y is not None
    assert plots.HEIGHT - drawn.line_y == pytest.approx(2 * tall[1], abs=0.2)
    assert drawn.columns[0].title == "0: 300 messages"


def test_a_plot_of_nothing_has_no_shape() -> None:
    assert plots.columns("t", [], []).columns == []
    assert plots.lines("t", [], []).lines == []
    assert plots.matrix("t", {}, rows=[], what="x").cells == []


def test_cells_tell_nothing_from_unknown_and_the_most_is_the_hottest() -> None:
    found = plots.matrix("t", {("a", 0): 0, ("a", 1): 9, ("b", 0): 1}, rows=["a", "b"], what="x")

    assert [(cell.heat, cell.text) for cell in found.cells] == [
        (0, "0"), (4, "9"), (2, "1"), (None, mq.UNKNOWN)]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (9_999, "9,999"), (12_345, "12.3 k"), (123_456, "123 k"), (2_500_000, "2.5 M")],
)
def test_numbers_fit_into_a_box(value: int, text: str) -> None:
    assert plots.short(value) == text


def test_many_places_have_few_ticks() -> None:
    found = plots.ticks([str(number) for number in range(1_000)])

    assert len(found) <= 12
    assert [tick.is_wide for tick in found[:2]] == [False, True]
