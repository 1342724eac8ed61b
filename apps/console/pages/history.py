"""Pages of what groups and topics were in the last minutes, hours and days. Know samples alone."""

from collections.abc import Sequence

from django.http import HttpRequest

from apps.console import histories
from apps.console.histories import FIRST_RANGE, RANGES, Wanted
from apps.console.pages.common import Page
from apps.console.pages.rows import rows_page
from apps.engine.clock import SystemClock
from apps.metrics import selectors
from apps.metrics.series import SERIES

_NAME_CHARACTERS_MAX = 200


@rows_page
def group(request: HttpRequest, *, name: str) -> Page:
    """Show lag, age and rates of a group."""
    return _page(request, name, kind="group", charts=histories.GROUP_CHARTS)


@rows_page
def topic(request: HttpRequest, *, name: str) -> Page:
    """Show rates and lag of a topic."""
    return _page(request, name, kind="topic", charts=histories.TOPIC_CHARTS)


def _page(request: HttpRequest, name: str, *, kind: str, charts: Sequence[Wanted]) -> Page:
    shown = RANGES.get(request.GET.get("range", ""), RANGES[FIRST_RANGE])
    now_ms = SystemClock().wall_ms()
    to_ms = shown.resolution.slot_ms(now_ms) + shown.resolution.ms
    from_ms = to_ms - shown.span_ms
    asked = name.replace("\0", "")[:_NAME_CHARACTERS_MAX]
    points = {
        series: selectors.points(
            SERIES[series],
            topic=asked if kind == "topic" else None,
            group=asked if kind == "group" else None,
            resolution=shown.resolution,
            from_ms=from_ms,
            to_ms=to_ms,
        )
        for wanted in charts
        for series, _name, _look in wanted.series
    }
    return Page(
        template="console/lists/history.html",
        values={
            "name": name,
            "kind": kind,
            "shown": shown,
            "ranges": list(RANGES.values()),
            "charts": [
                histories.chart(wanted, points, shown=shown, from_ms=from_ms) for wanted in charts
            ],
            "times": histories.times(shown, from_ms=from_ms),
        },
    )
