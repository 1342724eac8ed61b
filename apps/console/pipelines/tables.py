"""Tables of a page: columns with a way to write each value. Pure; escaping stays with templates."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.utils.translation import gettext as _

from apps.console.plots import Number, written
from apps.console.templatetags import mq
from apps.core.pagination import rfc3339

UNKNOWN = mq.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a page's table: where its value is, what it is called, how it is written.

    `look` is a class of the stylesheet. A narrow window leaves out what is `wide`. The first column
    of a table names its rows.
    """

    key: str
    label: str
    write: Callable[[Any], str]
    look: str = ""
    wide: bool = False

    @property
    def classes(self) -> str:
        """Return the classes of a cell."""
        return f"{self.look} wide".strip() if self.wide else self.look


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell as it is shown; `level` says how bad it is by a word the stylesheet knows."""

    text: str
    classes: str
    level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as it is shown. `is_cut` says that there are more rows."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    is_cut: bool = False


def table(
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    *,
    rows_max: int,
    levels: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda _row: {},
) -> Table:
    """Return rows as they are shown; `levels` gives the level of a row's cells by column."""
    shown = [_cells(columns, row, levels(row)) for row in rows[:rows_max]]
    return Table(columns=columns, rows=shown, is_cut=len(rows) > rows_max)


def text(key: str, label: str, *, wide: bool = False) -> Column:
    """Return a column of names."""
    return Column(key=key, label=label, write=_text, look="owner", wide=wide)


def count(key: str, label: str, *, wide: bool = False) -> Column:
    """Return a column of whole numbers."""
    return Column(key=key, label=label, write=_count, look="number", wide=wide)


def number(key: str, label: str, *, wide: bool = False) -> Column:
    """Return a column of numbers with decimals where they say something."""
    return Column(key=key, label=label, write=_number, look="number", wide=wide)


def share(key: str, label: str, *, wide: bool = False) -> Column:
    """Return a column of shares, 0 to 1, in percent."""
    return Column(key=key, label=label, write=_share, look="number", wide=wide)


def size(key: str, label: str, *, wide: bool = False) -> Column:
    """Return a column of bytes."""
    return Column(key=key, label=label, write=_size, look="number", wide=wide)


def milliseconds(key: str, label: str, *, wide: bool = False) -> Column:
    """Return a column of durations in milliseconds."""
    return Column(key=key, label=label, write=_milliseconds, look="number", wide=wide)


def seconds(key: str, label: str, *, wide: bool = False) -> Column:
    """Return a column of durations in seconds."""
    return Column(key=key, label=label, write=_seconds, look="number", wide=wide)


def moment(key: str, label: str, *, wide: bool = False) -> Column:
    """Return a column of moments."""
    return Column(key=key, label=label, write=written_moment, look="when", wide=wide)


def truth(key: str, label: str, *, wide: bool = False) -> Column:
    """Return a column of yes and no."""
    return Column(key=key, label=label, write=_truth, wide=wide)


def written_moment(value: datetime | date | None) -> str:
    """Return day and time in UTC; a day alone where there is no time."""
    if value is None:
        return UNKNOWN
    return mq.moment(rfc3339(value)) if isinstance(value, datetime) else value.isoformat()


def _cells(
    columns: Iterable[Column], row: Mapping[str, Any], levels: Mapping[str, str]
) -> list[Cell]:
    return [
        Cell(
            text=column.write(row[column.key]),
            classes=column.classes,
            level=levels.get(column.key, ""),
        )
        for column in columns
    ]


def _text(value: object) -> str:
    return str(value) if value not in (None, "") else UNKNOWN


def _count(value: int | None) -> str:
    return mq.count(value)


def _number(value: Number | None) -> str:
    return UNKNOWN if value is None else written(value)


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f} %"


def _size(value: int | None) -> str:
    return mq.size(value)


def _milliseconds(value: float | None) -> str:
    if value is not None and value < 0:
        return f"-{mq.duration(round(-value))}"
    return mq.duration(None if value is None else round(value))


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else _milliseconds(value * 1000)


def _truth(value: object) -> str:
    return _("yes") if value else _("no")
