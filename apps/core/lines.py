"""Files of lines, as people take them away: JSON and CSV. Pure; knows no rows and no answer."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from apps.core.attachments import safe_cell

Line = Mapping[str, object]


def _nothing(_end: Line) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format: its media type, how a file ends, begins, and how its lines are made.

    `last` makes what stands behind all lines, of what there is to say of the whole.
    """

    media_type: str
    ending: str
    head: str
    written: Callable[[Line], str]
    last: Callable[[Line], str] = _nothing


def formats(
    columns: Sequence[str],
    *,
    cells: Callable[[Line], Line],
    last_as_json: Callable[[Line], str] = _nothing,
    last_as_csv: Callable[[Line], str] = _nothing,
) -> Mapping[str, Format]:
    """Return `jsonl`, a document a line, and `csv` with these columns of what `cells` makes."""
    return MappingProxyType(
        {
            "jsonl": Format(
                media_type="application/x-ndjson",
                ending="jsonl",
                head="",
                written=json_line,
                last=last_as_json,
            ),
            "csv": Format(
                media_type="text/csv; charset=utf-8",
                ending="csv",
                head=",".join(columns) + "\r\n",
                written=lambda line: csv_row(map(cells(line).__getitem__, columns)),
                last=last_as_csv,
            ),
        }
    )


def json_line(line: Line) -> str:
    """Return a line of JSON."""
    return json.dumps(line, ensure_ascii=False) + "\n"


def csv_row(values: Iterable[object]) -> str:
    """Return a row whose cells no spreadsheet takes for formulas; None is empty."""
    text = io.StringIO()
    row = ["" if value is None else safe_cell(str(value)) for value in values]
    csv.writer(text, quoting=csv.QUOTE_ALL).writerow(row)
    return text.getvalue()
