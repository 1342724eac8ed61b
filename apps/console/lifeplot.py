"""A message's life drawn: lanes, marks and stretches in a box of fixed width. Pure: values only."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.console.messages import stamp
from apps.console.words import said
from apps.messages.life import Event, Kind
from apps.messages.texts import kind_text

WIDTH = 1000
LEFT = 150
RIGHT = 24
LANE = 32
TOP = 26
_TICKS = 4
# What fits beside the lanes.
_NAME_CHARACTERS = 20
# Marks that would be as many as points of the drawing say nothing more.
_MARKS_MAX = 400

LEVELS = {
    Kind.STORED: "good",
    Kind.COMMITTED: "good",
    Kind.SETTLED: "good",
    Kind.FAILED: "bad",
    Kind.DEAD: "bad",
    Kind.GIVEN_UP: "bad",
    Kind.DISCARDED: "bad",
    Kind.RETRIED: "warn",
    Kind.LOCK_WAIT: "warn",
    Kind.IN_FLIGHT: "warn",
    Kind.UNDECIDED: "warn",
    Kind.RECALLED: "warn",
}
_WAITS = (Kind.WAITING, Kind.LOCK_WAIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point, or a stretch where `width` is not 0; `title` says what it is."""

    x: float
    y: float
    width: float
    level: str
    is_wait: bool
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Lanes by name and height, ticks by place and text, and the marks on them."""

    height: int
    lanes: Sequence[tuple[str, float]]
    ticks: Sequence[tuple[float, str]]
    marks: Sequence[Mark]
    left_out: int = 0
    """Events that have a time and are not drawn, because there are too many."""


def level_of(event: Event) -> str:
    """Return how good what happened is, as the stylesheet has it: good, bad, warn or nothing."""
    if event.kind is Kind.WORKED:
        return {"ok": "good", "error": "bad", "timeout": "bad", "later": "warn"}.get(
            event.result, ""
        )
    return LEVELS.get(event.kind, "")


def drawing(events: Sequence[Event], *, message_name: str) -> Drawing | None:
    """Draw events that have a time; None where fewer than two do, or all of them at once."""
    every = [one for one in events if one.at_ms is not None]
    timed = every[:_MARKS_MAX]
    starts = [one.at_ms for one in timed if one.at_ms is not None]
    ends = [one.ended_ms for one in timed if one.ended_ms is not None]
    if len(timed) < 2 or max([*starts, *ends]) == min(starts):
        return None
    first, last = min(starts), max([*starts, *ends])
    groups = list(dict.fromkeys(one.group for one in timed if one.group))
    places = {group: number for number, group in enumerate(["", *groups])}
    scale = (WIDTH - LEFT - RIGHT) / (last - first)

    def x_of(time_ms: int) -> float:
        return round(LEFT + (time_ms - first) * scale, 1)

    marks = []
    for one in timed:
        assert one.at_ms is not None
        ended_ms = one.at_ms if one.ended_ms is None else max(one.at_ms, one.ended_ms)
        x = x_of(one.at_ms)
        width = x_of(ended_ms) - x
        marks.append(
            Mark(
                x=x,
                y=_middle(places[one.group]),
                # A stretch too short to be seen is drawn as a point.
                width=width if width >= 3 else 0,
                level=level_of(one),
                is_wait=one.kind in _WAITS,
                title=f"{kind_text(one)} {stamp(one.at_ms) or ''}".strip(),
            )
        )
    # Of a life of a few milliseconds there are fewer moments than ticks.
    moments = sorted({first + (last - first) * part // _TICKS for part in range(_TICKS + 1)})
    names = [message_name, *(group[:_NAME_CHARACTERS] for group in groups)]
    return Drawing(
        height=TOP + LANE * len(names) + 8,
        lanes=[(name, _middle(number)) for number, name in enumerate(names)],
        ticks=[(x_of(at_ms), _tick(at_ms - first)) for at_ms in moments],
        marks=marks,
        left_out=len(every) - len(timed),
    )


def _middle(lane: int) -> float:
    return TOP + LANE * lane + LANE / 2


def _tick(after_ms: int) -> str:
    """Return how long after the first event a place of the drawing is."""
    if after_ms < 1_000:
        return f"+{said('milliseconds', number=str(after_ms))}"
    if after_ms < 120_000:
        return f"+{said('seconds', number=f'{after_ms / 1000:.1f}')}"
    if after_ms < 7_200_000:
        return f"+{said('minutes', number=f'{after_ms / 60_000:.1f}')}"
    return f"+{said('hours', number=f'{after_ms / 3_600_000:.1f}')}"
