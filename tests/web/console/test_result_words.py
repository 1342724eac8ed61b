"""Codes, hours and reasons of rows are said in the words and by the clock of the viewer."""

from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone, translation

from apps.console.days import day, day_and_hour, hour
from apps.console.histories import GROUP_CHARTS, TOPIC_CHARTS, UNITS
from apps.console.pipelines import codes
from apps.console.stored_words import stored

EVENING = datetime(2026, 1, 31, 20, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("say", "code", "english", "chinese"),
    [
        (codes.disorder, "two_queues", "two queues", "跨两个队列"),
        (codes.pattern, "mixed", "to and fro", "来回切换"),
        (codes.copy, "stored", "stored", "重复存储"),
        (codes.cause, "timeout", "time-out", "超时"),
        (codes.key_kind, "sharding_key", "sharding key", "分区键"),
        (codes.severity, "block", "blocks", "阻断"),
    ],
)
def test_a_code_of_results_is_said_in_words(
    say: Callable[[str], str], code: str, english: str, chinese: str
) -> None:
    assert say(code) == english
    with translation.override("zh-hans"):
        assert say(code) == chinese
    assert say("of a later version") == "of a later version"


def test_an_hour_below_a_plot_is_by_the_viewers_clock_and_a_day_is_one_of_utc() -> None:
    with timezone.override(ZoneInfo("Asia/Shanghai")):
        assert hour(EVENING) == "04:30"
        assert day_and_hour(EVENING) == "01 Feb 04:30"
        assert day(EVENING) == "31 Jan"


def test_why_an_alert_is_over_is_said_in_words_among_its_events() -> None:
    with translation.override("zh-hans"):
        assert str(stored("below the threshold")) == "低于阈值"


def test_each_chart_of_a_history_says_its_unit_in_words() -> None:
    with translation.override("zh-hans"):
        said = {str(UNITS[chart.unit]) for chart in (*GROUP_CHARTS, *TOPIC_CHARTS)}
    assert said == {"条", "条/秒", "秒"}
