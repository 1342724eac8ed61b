"""Plots as shapes of SVGs, computed on the server. Pure: numbers and texts in, positions out.

Templates put the shapes and texts into pages, and escape there. A plot that is stretched to its
box has no text inside: what is written beside it is in lists.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

WIDTH = 600
HEIGHT = 140
# Room for half the width of a line.
_EDGE = 2
_CELL_WIDTH = 50
_CELL_HEIGHT = 26
_LABEL_WIDTH = 180
_LABEL_CHARACTERS = 26
_HEAT_MAX = 4
# More labels than this run into each other below a plot, and a narrow one has half of them.
_LABELS_MAX = 12
# With more places than this, one label stands for as many places as it has room for.
_PLACES_MAX = 48

Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A box of a matrix with what is written in it; `heat` 0 is nothing, 4 the most there is."""

    x: int
    y: int
    heat: int | None
    text: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A text at a place, and the whole of it where it was cut."""

    x: int
    y: int
    text: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Rows and columns of coloured numbers, in the size it is shown in."""

    title: str
    width: int
    height: int
    cells: Sequence[Cell]
    rows: Sequence[Label]
    columns: Sequence[Label]
    cell_width: int = _CELL_WIDTH - 3
    cell_middle: float = (_CELL_WIDTH - 3) / 2
    cell_height: int = _CELL_HEIGHT - 3
    template: str = "console/pipelines/matrix.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A text below a plot, maybe none; `is_wide` where a narrow plot has no room for it."""

    text: str
    is_wide: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a column."""

    look: str
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its pieces from the bottom up, and what it says when it is pointed at."""

    x: float
    width: float
    parts: Sequence[Part]
    title: str
    mark_y: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Columns beside each other; `line_y` is a level that goes through all of them."""

    title: str
    columns: Sequence[Column]
    ticks: Sequence[Tick]
    legend: Sequence[tuple[str, str]]
    highest: str
    line_y: float | None = None
    template: str = "console/pipelines/columns.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The `d` of a path, and whose it is."""

    look: str
    name: str
    path: str
    last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Lines over time on one scale."""

    title: str
    lines: Sequence[Line]
    ticks: Sequence[Tick]
    highest: str
    template: str = "console/pipelines/lines.html"


Plot = Matrix | Columns | Lines

LOOKS = ("one", "two", "three", "four", "five", "six")


def matrix(
    title: str, values: Mapping[tuple[str, int], Number], *, rows: Sequence[str], what: str
) -> Matrix:
    """Return a matrix of numbers by row and column; a pair without one has a dash.

    Colours go by the root of the number, so that few can be told from none and from many.
    """
    columns = sorted({column for _row, column in values})
    highest = max(values.values(), default=0)
    top = _CELL_HEIGHT
    cells = []
    for line, row in enumerate(rows):
        for place, column in enumerate(columns):
            value = values.get((row, column))
            cells.append(
                Cell(
                    x=_LABEL_WIDTH + place * _CELL_WIDTH,
                    y=top + line * _CELL_HEIGHT,
                    heat=None if value is None else heat(value, highest),
                    text="\N{EN DASH}" if value is None else short(value),
                    title=_("%(row)s, queue %(queue)s: %(what)s")
                    % {
                        "row": row,
                        "queue": column,
                        "what": _("not looked at") if value is None else f"{value:,} {what}",
                    },
                )
            )
    return Matrix(
        title=title,
        width=_LABEL_WIDTH + len(columns) * _CELL_WIDTH,
        height=top + len(rows) * _CELL_HEIGHT,
        cells=cells,
        rows=[
            Label(x=_LABEL_WIDTH - 10, y=top + line * _CELL_HEIGHT, text=cut(row), title=row)
            for line, row in enumerate(rows)
        ],
        columns=[
            Label(
                x=_LABEL_WIDTH + place * _CELL_WIDTH + (_CELL_WIDTH - 3) // 2,
                y=0,
                text=str(column),
                title=_("queue %(queue)s") % {"queue": column},
            )
            for place, column in enumerate(columns)
        ],
    )


def heat(value: Number, highest: Number) -> int:
    """Return how hot a number is beside the highest: 0 for nothing, else 1 to 4."""
    if value <= 0 or highest <= 0:
        return 0
    return min(_HEAT_MAX, max(1, math.ceil(math.sqrt(value / highest) * _HEAT_MAX)))


def columns(
    title: str,
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[Number]]],
    *,
    even: float | None = None,
    marks: Sequence[Number | None] | None = None,
    marks_name: str = "",
    looks: Sequence[str] = LOOKS,
) -> Columns:
    """Return columns, one a label, of several numbers each on top of one another.

    `even` is a level drawn through all; `marks` are levels of single columns.
    """
    count = len(labels)
    sums = [sum(values[place] for _name, values in series) for place in range(count)]
    known = [mark for mark in marks or () if mark is not None]
    highest = max([*sums, *known, even or 0], default=0)
    step = WIDTH / count if count else WIDTH
    drawn = []
    for place, label in enumerate(labels):
        parts, below = [], 0.0
        for look, (_name, values) in zip(looks, series, strict=False):
            tall = _scaled(values[place], highest)
            if tall:
                parts.append(
                    Part(look=look, y=round(HEIGHT - below - tall, 1), height=round(tall, 1))
                )
            below += tall
        said = ", ".join(f"{written(values[place])} {name}" for name, values in series)
        mark = marks[place] if marks else None
        drawn.append(
            Column(
                x=round(place * step + step * 0.1, 2),
                width=round(step * 0.8, 2),
                parts=parts,
                title=f"{label}: {said}",
                mark_y=None if mark is None else round(HEIGHT - _scaled(mark, highest), 1),
            )
        )
    legend = [(look, name) for look, (name, _values) in zip(looks, series, strict=False)]
    if known:
        legend.append(("mark", marks_name))
    return Columns(
        title=title,
        columns=drawn,
        ticks=ticks(labels),
        legend=legend,
        highest=written(highest),
        line_y=None if even is None else round(HEIGHT - _scaled(even, highest), 1),
    )


def lines(
    title: str,
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[Number | None]]],
    *,
    looks: Sequence[str] = LOOKS,
) -> Lines:
    """Return lines over as many moments as there are labels; a moment without a number is a gap."""
    known = [value for _name, values in series for value in values if value is not None]
    highest = max(known, default=0)
    return Lines(
        title=title,
        lines=[
            Line(
                look=look,
                name=name,
                path=path(values, highest=highest),
                last=_last(values),
            )
            for look, (name, values) in zip(looks, series, strict=False)
        ],
        ticks=ticks(labels),
        highest=written(highest),
    )


def path(
    values: Sequence[Number | None],
    *,
    highest: Number,
    width: int = WIDTH,
    height: int = HEIGHT,
) -> str:
    """Return the `d` of a line through the values, broken where one is unknown."""
    step = width / max(1, len(values) - 1)
    found, run = [], []
    for place, value in enumerate([*values, None]):
        if value is not None:
            tall = value / highest * (height - 2 * _EDGE) if highest > 0 else 0
            run.append(f"{place * step:.1f} {height - _EDGE - tall:.1f}")
        elif run:
            # A point alone is drawn as a dot: a line of no length still has round ends.
            found.append(f"M{'L'.join(run)}" if len(run) > 1 else f"M{run[0]}h0")
            run = []
    return "".join(found)


def ticks(labels: Sequence[str]) -> list[Tick]:
    """Return what is written below a plot of so many places: as much as there is room for."""
    every = math.ceil(len(labels) / _LABELS_MAX)
    if len(labels) > _PLACES_MAX:
        labels, every = labels[::every], 1
    return [
        Tick(text=label if place % every == 0 else "", is_wide=bool(place // every % 2))
        for place, label in enumerate(labels)
    ]


def short(value: Number) -> str:
    """Return a number that fits into a box."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if value >= size:
            amount = value / (1_000 if unit == "k" else size)
            return f"{amount:.0f} {unit}" if amount >= 100 else f"{amount:.1f} {unit}"
    return written(value)


def written(value: Number) -> str:
    """Return a number with its thousands apart, and no more decimals than say something."""
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if value >= 10 else f"{value:.3g}"


def cut(text: str, characters: int = _LABEL_CHARACTERS) -> str:
    """Return a text, its middle left out where it is long."""
    if len(text) <= characters:
        return text
    kept = (characters - 1) // 2
    return f"{text[:kept]}…{text[-kept:]}"


def _scaled(value: Number, highest: Number) -> float:
    if value <= 0 or highest <= 0:
        return 0.0
    # What is not nothing can be seen.
    return max(1.0, value / highest * (HEIGHT - _EDGE))


def _last(values: Sequence[Number | None]) -> str:
    last = next((value for value in reversed(values) if value is not None), None)
    return "\N{EN DASH}" if last is None else written(last)
