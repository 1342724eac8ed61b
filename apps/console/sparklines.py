"""The last hour as three small lines, drawn on the server. Knows numbers, times and SVG paths.

A stretch that nobody measured is a gap in the line, and so is a value that is unknown.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from apps.core.moments import moment
from apps.core.phrases import Text, phrase
from apps.metrics.series import Totals

SPAN_MS = 3_600_000
WIDTH = 600
HEIGHT = 48
# Room for half the width of the line.
_EDGE = 2
# Samples come every five seconds; one or two that are missing are no gap yet.
GAP_MS = 10_000
STALE_AFTER_MS = 30_000


class State(StrEnum):
    """Whether the lines end now."""

    FRESH = "fresh"
    STALE = "stale"
    EMPTY = "empty"


class Line(TypedDict):
    """One line: the `d` of its path, and the highest value measured; None is unknown.

    The highest value is where the box ends, also where the line shows means that stay below.
    """

    path: str
    peak: float | None


class LastHourPicture(TypedDict):
    """What the overview shows of the statistics; `note` says of when they are."""

    state: str
    note: Text
    sent: Line
    consumed: Line
    lag: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawing:
    from_ms: int
    to_ms: int
    newest_ms: int | None
    sent: Line
    consumed: Line
    lag: Line


class LastHour:
    """Holds the newest drawing; read from any thread."""

    def __init__(self) -> None:
        # One attribute, replaced as a whole: a reader sees the old drawing or the new one.
        self._drawing = _drawn((), now_ms=0)

    def take(self, totals: Sequence[Totals], *, now_ms: int) -> None:
        """Draw the totals of the hour before `now_ms`, by time, in place of those before."""
        self._drawing = _drawn(totals, now_ms=now_ms)

    def picture(self, *, now_ms: int) -> LastHourPicture:
        """Return the lines as pages show them at `now_ms`."""
        drawing = self._drawing
        newest_ms = drawing.newest_ms
        note: Text
        if newest_ms is None:
            state, note = State.EMPTY, phrase("no statistics of the last hour")
        elif now_ms - newest_ms > STALE_AFTER_MS:
            note = phrase("statistics stand still since %(time)s", time=_time(newest_ms))
            state = State.STALE
        else:
            begin, end = _time(drawing.from_ms), _time(drawing.to_ms)
            note = phrase("%(begin)s to %(end)s", begin=begin, end=end)
            state = State.FRESH
        return {
            "state": state.value,
            "note": note,
            "sent": drawing.sent,
            "consumed": drawing.consumed,
            "lag": drawing.lag,
        }


_Reading = Callable[[Totals], float | None]


def _drawn(totals: Sequence[Totals], *, now_ms: int) -> _Drawing:
    from_ms = now_ms - SPAN_MS

    def line(value: _Reading, highest: _Reading) -> Line:
        known = [found for slot in totals if (found := highest(slot)) is not None]
        peak = max(known, default=None)
        runs = _runs(totals, value)
        return {"path": "".join(_path(run, peak or 1, from_ms) for run in runs), "peak": peak}

    return _Drawing(
        from_ms=from_ms,
        to_ms=now_ms,
        newest_ms=min(now_ms, totals[-1].at_ms + totals[-1].span_ms) if totals else None,
        sent=line(lambda slot: slot.send_rate, lambda slot: slot.send_rate_max),
        consumed=line(lambda slot: slot.consume_rate, lambda slot: slot.consume_rate_max),
        lag=line(lambda slot: slot.lag_max, lambda slot: slot.lag_max),
    )


_Run = list[tuple[Totals, float]]


def _runs(totals: Sequence[Totals], value_of: _Reading) -> Iterator[_Run]:
    """Yield slots with their values, as far as they are drawn without a break."""
    run: _Run = []
    for slot in totals:
        value = value_of(slot)
        if run and (value is None or _is_gap(run[-1][0], slot)):
            yield run
            run = []
        if value is not None:
            run.append((slot, value))
    if run:
        yield run


def _is_gap(before: Totals, after: Totals) -> bool:
    return after.at_ms - (before.at_ms + before.span_ms) > GAP_MS


def _path(run: _Run, peak: float, from_ms: int) -> str:
    points = [_point(slot, value / peak, from_ms) for slot, value in run]
    # A point alone is drawn as a dot: a line of no length still has round ends.
    return f"M{'L'.join(points)}" if len(points) > 1 else f"M{points[0]}h0"


def _point(slot: Totals, height: float, from_ms: int) -> str:
    middle_ms = slot.at_ms + slot.span_ms / 2 - from_ms
    x = min(max(middle_ms / SPAN_MS, 0), 1) * WIDTH
    y = HEIGHT - _EDGE - height * (HEIGHT - 2 * _EDGE)
    return f"{x:.1f} {y:.1f}"


def _time(at_ms: int) -> str:
    # The page puts it by the clock of its viewer: `times` of mq.py and format.js.
    return moment(at_ms).strftime("%Y-%m-%dT%H:%MZ")
