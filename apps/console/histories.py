"""History of a group or a topic as charts: which there are, and how the server draws them. Pure.

The same points as `GET /api/v1/series/{name}` gives are drawn here for browsers without scripts,
and by static/console/history.js elsewhere. What was not sampled breaks the line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.console.plots import path, written
from apps.core.moments import moment
from apps.core.zones import in_zone
from apps.metrics.resolutions import FINE, HOUR, MINUTE, Resolution
from apps.metrics.series import SERIES, Point, Unit

WIDTH, HEIGHT = 600, 170
_MS_PER_S = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """How far back a chart goes, and by which points."""

    name: str
    span_ms: int
    resolution: Resolution
    title: str | Promise


RANGES: Mapping[str, Range] = MappingProxyType(
    {
        found.name: found
        for found in (
            Range(name="5m", span_ms=300_000, resolution=FINE, title=_("5 minutes")),
            Range(name="1h", span_ms=3_600_000, resolution=FINE, title=_("1 hour")),
            Range(name="6h", span_ms=21_600_000, resolution=MINUTE, title=_("6 hours")),
            Range(name="24h", span_ms=86_400_000, resolution=MINUTE, title=_("24 hours")),
            Range(name="7d", span_ms=604_800_000, resolution=HOUR, title=_("7 days")),
        )
    }
)
FIRST_RANGE = "1h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A chart there is: its series with a name and a look each, and its unit as people read it."""

    key: str
    title: str | Promise
    unit: str
    series: Sequence[tuple[str, str | Promise, str]]


UNITS: Mapping[str, Promise] = {
    "messages": pgettext_lazy("unit of a chart", "messages"),
    "messages/s": pgettext_lazy("unit of a chart", "messages/s"),
    "s": pgettext_lazy("unit of a chart", "s"),
}
GROUP_CHARTS = (
    Wanted(key="lag", title=_("Lag"), unit="messages", series=(("lag", _("lag"), "behind"),)),
    Wanted(
        key="age",
        title=_("Age of the oldest message left"),
        unit="s",
        series=(("oldest_age_ms", _("age"), "behind"),),
    ),
    Wanted(
        key="rates",
        title=_("Messages a second"),
        unit="messages/s",
        series=(("arrive_rate", _("in"), "one"), ("consume_rate", _("out"), "two")),
    ),
)
TOPIC_CHARTS = (
    Wanted(
        key="rates",
        title=_("Messages a second"),
        unit="messages/s",
        series=(("send_rate", _("sent"), "one"), ("consume_rate", _("consumed"), "two")),
    ),
    Wanted(
        key="lag",
        title=_("Lag of all groups"),
        unit="messages",
        series=(("lag", _("lag"), "behind"),),
    ),
    Wanted(
        key="held",
        title=_("Held"),
        unit="messages",
        series=(("held", pgettext_lazy("messages", "held"), "one"),),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLine:
    """A line of a chart: the `d` of its path, its newest and its highest value as texts."""

    series: str
    name: str | Promise
    look: str
    path: str
    newest: str
    highest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart as a page shows it; `is_empty` where nothing is known of the whole time."""

    key: str
    title: str | Promise
    unit: str
    unit_said: str | Promise
    lines: Sequence[DrawnLine]
    highest: str
    is_empty: bool


def chart(
    wanted: Wanted,
    points: Mapping[str, Sequence[Point]],
    *,
    shown: Range,
    from_ms: int,
) -> Chart:
    """Return a chart of points by series, from the slot of `from_ms` on."""
    lines = {
        series: by_slot(points[series], series=series, shown=shown, from_ms=from_ms)
        for series, _name, _look in wanted.series
    }
    known = [value for line in lines.values() for value in line if value is not None]
    highest = max(known, default=0)
    return Chart(
        key=wanted.key,
        title=wanted.title,
        unit=wanted.unit,
        unit_said=UNITS[wanted.unit],
        lines=[
            DrawnLine(
                series=series,
                name=name,
                look=look,
                path=path(lines[series], highest=highest, width=WIDTH, height=HEIGHT),
                newest=_written(_newest(lines[series])),
                highest=_written(_highest(lines[series])),
            )
            for series, name, look in wanted.series
        ],
        highest=written(highest),
        is_empty=not known,
    )


def by_slot(
    points: Sequence[Point], *, series: str, shown: Range, from_ms: int
) -> list[float | None]:
    """Return the value of each slot of a range, None where nobody measured or nobody knows."""
    step_ms = shown.resolution.ms
    line: list[float | None] = [None] * (shown.span_ms // step_ms)
    begin_ms = shown.resolution.slot_ms(from_ms)
    is_ms = SERIES[series].unit is Unit.MS
    for point in points:
        place = (point.at_ms - begin_ms) // step_ms
        if point.value is not None and 0 <= place < len(line):
            line[place] = point.value / _MS_PER_S if is_ms else point.value
    return line


def times(shown: Range, *, from_ms: int) -> list[str]:
    """Return the texts below a chart: where it begins, its middle, and where it ends."""
    form = "%m-%d %H:%M" if shown.span_ms > 86_400_000 else "%H:%M:%S"
    places = (from_ms, from_ms + shown.span_ms // 2, from_ms + shown.span_ms)
    return [in_zone(moment(at_ms)).strftime(form) for at_ms in places]


def _newest(line: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(line) if value is not None), None)


def _highest(line: Sequence[float | None]) -> float | None:
    return max((value for value in line if value is not None), default=None)


def _written(value: float | None) -> str:
    return "\N{EN DASH}" if value is None else written(value)
