"""Figures as text, on the server and in the browser."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone, translation

from apps.console.templatetags import mq
from apps.console.words import words_of_scripts
from apps.core.languages import Language
from apps.core.zones import zone_named

FORMATS: dict[str, Callable[..., str]] = {
    "count": mq.count,
    "short": mq.short,
    "rate": mq.rate,
    "size": mq.size,
    "text": mq.text,
    "span": mq.span,
    "ago": mq.ago,
    "due": mq.due,
    "ends": mq.ends,
    "drained": mq.drained,
    "duration": mq.duration,
    "moment": mq.moment,
    "time_of_day": mq.time_of_day,
    "times": mq.times,
    "percent": mq.percent,
    "words": mq.text,
}

FIGURES = [
    ("count", None, mq.UNKNOWN),
    ("count", 0, "0"),
    ("count", 1234567, "1,234,567"),
    ("short", None, mq.UNKNOWN),
    ("short", 9_999_999, "9,999,999"),
    ("short", 10_000_000, "10.0 M"),
    ("short", 999_900_000, "999.9 M"),
    ("short", 12_340_000_000, "12.34 B"),
    ("rate", None, mq.UNKNOWN),
    ("rate", 0, "0"),
    ("rate", 0.0, "0"),
    ("rate", 0.3, "0.3"),
    ("rate", 7.0, "7.0"),
    ("rate", 10.2, "10"),
    ("rate", 123456.7, "123,457"),
    ("size", None, mq.UNKNOWN),
    ("size", 0, "0 B"),
    ("size", 1023, "1023 B"),
    ("size", 1024, "1.0 KiB"),
    ("size", 41_875_931_136, "39.0 GiB"),
    ("size", 3 * 2**50, "3.0 PiB"),
    ("text", None, mq.UNKNOWN),
    ("text", "rising", "rising"),
    ("span", None, mq.UNKNOWN),
    ("span", 0, "0 s"),
    ("span", 119, "119 s"),
    ("span", 120, "2 min"),
    ("span", 7_199, "119 min"),
    ("span", 7_200, "2 h"),
    ("span", 172_799, "47 h"),
    ("span", 172_800, "2 d"),
    ("span", 172_800_000, "2,000 d"),
    ("ends", None, mq.UNKNOWN),
    ("ends", 59, "in 59 s"),
    ("ends", 0, "in 0 s"),
    ("ends", -3, "3 s ago"),
    ("drained", None, mq.UNKNOWN),
    ("drained", 0, "done"),
    ("drained", 7_200, "in 2 h"),
    ("ago", None, mq.UNKNOWN),
    ("ago", 3, "3 s ago"),
    ("due", None, mq.UNKNOWN),
    ("due", 0, "now"),
    ("due", 5, "in 5 s"),
    ("due", -300, "late by 5 min"),
    ("duration", None, mq.UNKNOWN),
    ("duration", 0, "0 ms"),
    ("duration", 999, "999 ms"),
    ("duration", 1_000, "1.0 s"),
    ("duration", 61_280, "61.3 s"),
    ("duration", 120_000, "2 min"),
    ("time_of_day", None, mq.UNKNOWN),
    ("time_of_day", "2026-11-21T08:20:03.123Z", "08:20:03 UTC"),
    ("times", "since 2026-11-21T08:20:03.123Z", "since 2026-11-21 08:20:03 UTC"),
    ("times", "2026-11-21T08:20Z to 2026-11-21T09:20Z", "08:20 UTC to 09:20 UTC"),
    ("times", "never, by 12:00 or 2026-11-21", "never, by 12:00 or 2026-11-21"),
    ("percent", None, mq.UNKNOWN),
    ("percent", 0, "0 %"),
    ("words", None, mq.UNKNOWN),
    ("words", "", mq.UNKNOWN),
    ("words", "reading", "reading"),
    ("moment", None, mq.UNKNOWN),
    ("moment", "2026-11-21T08:20:03.123Z", "2026-11-21 08:20:03 UTC"),
]


@pytest.mark.parametrize(("kind", "value", "text"), FIGURES)
def test_a_figure_is_written_so(kind: str, value: object, text: str) -> None:
    assert FORMATS[kind](value) == text


def test_the_pattern_of_a_row_shows_dashes() -> None:
    assert {FORMATS[kind]("") for kind in FORMATS if kind != "times"} == {mq.UNKNOWN}


def test_a_moment_shows_its_time_of_day() -> None:
    assert mq.time_of_day("2026-11-21T08:20:03.123Z") == "08:20:03 UTC"


IN_ZONES = [
    ("UTC", "2026-11-21 08:20:03 UTC"),
    ("Asia/Shanghai", "2026-11-21 16:20:03 UTC+8"),
    ("Asia/Kolkata", "2026-11-21 13:50:03 UTC+5:30"),
    ("America/St_Johns", "2026-11-21 04:50:03 UTC-3:30"),
    ("Pacific/Kiritimati", "2026-11-21 22:20:03 UTC+14"),
]


@pytest.mark.parametrize(("zone", "text"), IN_ZONES)
def test_a_moment_is_by_the_clock_of_the_viewers_zone(zone: str, text: str) -> None:
    with timezone.override(zone_named(zone)):
        assert mq.moment("2026-11-21T08:20:03.123Z") == text
        assert mq.time_of_day("2026-11-21T08:20:03.123Z") == text[11:]


def test_a_moment_may_be_written_to_the_minute_and_to_the_millisecond() -> None:
    assert mq.minute("2026-11-21T08:20:03.123Z") == "2026-11-21 08:20 UTC"
    assert mq.instant("2026-11-21T08:20:03.007Z") == "2026-11-21 08:20:03.007 UTC"


def test_the_same_clock_says_what_it_is_from_utc_in_summer_and_winter() -> None:
    with timezone.override(zone_named("Europe/Berlin")):
        assert mq.moment("2026-07-01T10:00:00Z") == "2026-07-01 12:00:00 UTC+2"
        assert mq.moment("2026-12-01T10:00:00Z") == "2026-12-01 11:00:00 UTC+1"


def test_durations_are_in_the_viewers_language() -> None:
    with translation.override(Language.CHINESE.value):
        written = [mq.span(119), mq.ago(7_200), mq.due(-300), mq.ends(59), mq.duration(1_500)]

    assert written == ["119 秒", "2 小时前", "延迟 5 分钟", "59 秒后", "1.5 秒"]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the browser's half")
@pytest.mark.parametrize("language", list(Language))
@pytest.mark.parametrize("zone", [zone for zone, _ in IN_ZONES])
def test_the_browser_writes_every_figure_as_the_server_does(zone: str, language: Language) -> None:
    with translation.override(language.value), timezone.override(zone_named(zone)):
        expected = [FORMATS[kind](value) for kind, value, _ in FIGURES]
        page = {"content": json.dumps(words_of_scripts())}
    module = Path(settings.BASE_DIR, "static/console/format.js").as_uri()
    program = f"""
        globalThis.document = {{
            documentElement: {{ dataset: {{ zone: {json.dumps(zone)} }} }},
            querySelector: () => ({json.dumps(page)}),
        }};
        const {{ format }} = await import({json.dumps(module)});
        const figures = {json.dumps([figure[:2] for figure in FIGURES])};
        console.log(JSON.stringify(figures.map(([kind, value]) => format(kind, value))));
    """

    finished = subprocess.run(
        ["node", "--no-warnings", "--input-type=module", "--eval", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )

    assert json.loads(finished.stdout) == expected
