"""Locks as a grid: which queues a page of it shows, and what each cell says. Pure: knows rows.

A line is a topic of a group, a cell one of its queues. What is in an address is the name of a view
as well, so a page is sent the cells that it has, whatever it was filtered by.
"""

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, Final, TypedDict
from urllib.parse import parse_qs, urlencode

from apps.console.locks import HOLD_WORDS, LockRow
from apps.core.phrases import Text, phrase_in

CELLS_MAX: Final = 400
"""Cells of a page: 25 lines of 16 queues, which a screen of a desk shows at once."""
STEPS: Final = 12
"""Of a ring. A lease of a minute is told every five seconds, and no frame is sent between."""
COLOURS: Final = 8
PAGE_MAX: Final = 10_000
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

MARK_WORDS: Final[Mapping[str, Text]] = {
    "": "",
    "blocked": phrase_in("lock", "blocked"),
    "suspended": phrase_in("lock", "suspended"),
    "refused": phrase_in("lock", "refused"),
}
STATES: Final[Mapping[str, Text]] = {
    **{hold.value: word for hold, word in HOLD_WORDS.items()},
    **{mark: word for mark, word in MARK_WORDS.items() if mark},
}
"""What a queue can be chosen by, and what each is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What a viewer wants to see of the locks. Texts are parts of names; empty ones choose all."""

    group: str = ""
    topic: str = ""
    owner: str = ""
    state: str = ""
    page: int = 1

    @property
    def is_filtered(self) -> bool:
        """Say whether any queue may be left out."""
        return bool(self.group or self.topic or self.owner or self.state)

    def query(self, *, page: int | None = None) -> str:
        """Return what an address says of it, one text for one choice; empty for everything."""
        values = asdict(self if page is None else replace(self, page=page))
        return urlencode({name: value for name, value in values.items() if value not in ("", 1)})

    def takes(self, row: LockRow) -> bool:
        """Say whether a queue is among those that are wanted."""
        if self.group not in row["group"] or self.topic not in row["topic"]:
            return False
        if self.owner not in (row["owner"] or ""):
            return False
        match self.state:
            case "":
                return True
            case "refused":
                return bool(row["refused_per_min"])
            case "blocked" | "suspended":
                return row["state"] == self.state
        return row["hold"] == self.state


def chosen_by(values: Mapping[str, str]) -> Chosen:
    """Return what an address asks for; what it cannot mean is left out."""
    page = values.get("page", "")
    state = values.get("state", "")
    is_page = page.isascii() and page.isdigit() and 1 <= len(page) <= len(str(PAGE_MAX))
    return Chosen(
        group=values.get("group", "").strip(),
        topic=values.get("topic", "").strip(),
        owner=values.get("owner", "").strip(),
        state=state if state in STATES else "",
        page=min(PAGE_MAX, max(1, int(page))) if is_page else 1,
    )


def chosen_in(query: str) -> Chosen:
    """Return what a query string asks for; raise ValueError for one that is none."""
    return chosen_by(
        {name: values[0] for name, values in parse_qs(query, max_num_fields=5).items()}
    )


class CellRow(TypedDict):
    """A cell of the grid, or with `owners` the head of a line; the words are those of the table.

    `ring` is how many twelfths of the lease are left, `colour` and `letter` stand for the owner
    within its group. `mark` says that something is wrong.
    """

    id: str
    hold: str
    hold_said: Text
    owner: str | None
    letter: str
    colour: str
    ring: str
    mark: str
    mark_said: Text
    owners: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GridLine:
    """A topic of a group, with those of its queues that are on the page."""

    id: str
    group: str
    topic: str
    owners: str
    cells: Sequence[tuple[LockRow, CellRow]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """One page of the grid: its rows for the table, the same in lines, and where it stands."""

    rows: Sequence[LockRow]
    lines: Sequence[GridLine]
    found: int
    page: int
    pages: int

    def cells(self) -> list[CellRow]:
        """Return heads of lines and cells as they are pushed: what has changed goes by its id."""
        return [
            cell
            for line in self.lines
            for cell in (_head(line.id, line.owners), *(cell for _row, cell in line.cells))
        ]

    def revision(self) -> str:
        """Return a text that is another one when a queue came, went, or began to need somebody."""
        seen = "\n".join(f"{row['id']} {row['state']}" for row in self.rows)
        return f"{self.found}-{zlib.crc32(seen.encode()):08x}"


def grid_of(rows: Sequence[LockRow], chosen: Chosen) -> Grid:
    """Return the page of the grid that is wanted; behind the last one, the last one."""
    found = [row for row in rows if chosen.takes(row)]
    pages = max(1, -(-len(found) // CELLS_MAX))
    page = min(chosen.page, pages)
    shown = found[(page - 1) * CELLS_MAX : page * CELLS_MAX]
    letters = _letters(rows, {row["group"] for row in shown})
    lines = [
        _line(group, topic, list(of), letters[group])
        for (group, topic), of in groupby(shown, key=lambda row: (row["group"], row["topic"]))
    ]
    return Grid(rows=shown, lines=lines, found=len(found), page=page, pages=pages)


def grid_in_sight(rows: Sequence[LockRow], row_count: int | None, chosen: Chosen) -> Grid | None:
    """Return the page that is wanted of rows that may be the first of `row_count`.

    None where rows that are not here may belong to it, or change how it looks.
    """
    if row_count == len(rows):
        return grid_of(rows, chosen)
    if row_count is None or chosen.is_filtered or not rows:
        return None
    # Owners are lettered within a group, and the last one may go on in what is not here.
    last = rows[-1]["group"]
    whole = next(index for index, row in enumerate(rows) if row["group"] == last)
    pages = -(-row_count // CELLS_MAX)
    if min(chosen.page, pages) * CELLS_MAX > whole:
        return None
    return replace(grid_of(rows[:whole], chosen), found=row_count, pages=pages)


def _letters(rows: Iterable[LockRow], groups: set[str]) -> Mapping[str, Mapping[str, int]]:
    """Return the number of each owner within its group, by name: the same on every page."""
    owners: dict[str, set[str]] = {group: set() for group in groups}
    for row in rows:
        if row["owner"] and row["group"] in owners:
            owners[row["group"]].add(row["owner"])
    return {
        group: {owner: number for number, owner in enumerate(sorted(found))}
        for group, found in owners.items()
    }


def _line(group: str, topic: str, rows: Sequence[LockRow], numbers: Mapping[str, int]) -> GridLine:
    there = sorted({row["owner"] for row in rows if row["owner"]}, key=numbers.__getitem__)
    return GridLine(
        id=f"{group}/{topic}",
        group=group,
        topic=topic,
        owners=", ".join(f"{_letter(numbers[owner])} {owner}" for owner in there),
        cells=[(row, _cell(row, numbers)) for row in rows],
    )


def _head(line_id: str, owners: str) -> CellRow:
    return {
        "id": line_id,
        "hold": "",
        "hold_said": "",
        "owner": None,
        "letter": "",
        "colour": "",
        "ring": "",
        "mark": "",
        "mark_said": "",
        "owners": owners,
    }


def _cell(row: LockRow, numbers: Mapping[str, int]) -> CellRow:
    number = None if row["owner"] is None else numbers.get(row["owner"])
    mark = row["state"] or ("refused" if row["refused_per_min"] else "")
    return {
        "id": row["id"],
        "hold": row["hold"],
        "hold_said": row["hold_said"],
        "owner": row["owner"],
        "letter": "\u00b7" if number is None else _letter(number),
        "colour": "" if number is None else str(number % COLOURS),
        "ring": _ring(row),
        "mark": mark,
        "mark_said": MARK_WORDS[mark],
        "owners": "",
    }


def _letter(number: int) -> str:
    return _LETTERS[number] if number < len(_LETTERS) else str(number + 1)


def _ring(row: LockRow) -> str:
    """Return how many twelfths of the lease are left; empty where there is no lease."""
    left_s, lease_s = row["expires_in_s"], row["lease_s"]
    if left_s is None or not lease_s:
        return ""
    return str(max(0, min(STEPS, math.ceil(STEPS * left_s / lease_s))))


def everything(picture: Mapping[str, Any], chosen: Chosen, grid: Grid) -> dict[str, Any]:
    """Return what the page of locks binds: figures, the page's rows and cells, and the feed."""
    return {
        **{name: value for name, value in picture.items() if name != "rows"},
        "rows": list(grid.rows),
        "cells": grid.cells(),
        "found_count": grid.found,
        "revision": f"{grid.revision()}-{zlib.crc32(chosen.query().encode()):08x}",
    }
