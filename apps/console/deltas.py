"""What changed from one value of JSON to the next, small enough to be sent each second. Pure.

`static/console/delta.js` carries deltas out; a test has both agree. A delta is one of

    {"=": value}                                     the value is this one now
    {"+": {name: value}, "~": {name: delta}, "-": [name]}           of an object: set, changed, gone
    {"by": name, "+": {id: row}, "~": {id: delta}, "order": [id]}   of a list of rows

Parts that are empty are left out. Rows are told apart by the value of `by`; `order` is there when
rows came, went or changed places, and rows that it leaves out are gone.
"""

from collections.abc import Mapping
from typing import Any, Final

# By what rows of a list are told apart, the first that all have and that no two share.
_IDS: Final = ("id", "name", "client_id", "group")
# Values of JSON, and deltas, which are JSON too.
Json = Any
Delta = dict[str, Any]

_NOTHING: Final = object()


def delta_of(old: Json, new: Json) -> Delta | None:
    """Return what makes `new` of `old`; None where nothing has changed.

    A truth value and the number it equals are taken for the same: no place of a picture has both.
    """
    if old is new or old == new:
        return None
    return _delta(old, new) or {"=": new}


def _delta(old: Json, new: Json) -> Delta | None:
    """Return a delta of two values that differ; None where all of the new one must be sent."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _of_objects(old, new)
    if isinstance(old, list) and isinstance(new, list):
        return _of_lists(old, new)
    return None


def _of_objects(old: Mapping[str, Json], new: Mapping[str, Json]) -> Delta:
    # Thousands of values a second, on the engine's loop: what is the same is passed over at once.
    values: dict[str, Json] = {}
    deltas: dict[str, Delta] = {}
    for name, value in new.items():
        was = old.get(name, _NOTHING)
        if was is value or was == value:
            continue
        below = _delta(was, value) if isinstance(value, dict | list) else None
        if below is None:
            values[name] = value
        else:
            deltas[name] = below
    gone = [] if old.keys() <= new.keys() else [name for name in old if name not in new]
    return _without_empty({"+": values, "~": deltas, "-": gone})


def _of_lists(old: list[Json], new: list[Json]) -> Delta | None:
    by = _told_apart_by(old, new)
    if by is None:
        return None
    before = {str(row[by]): row for row in old}
    rows: dict[str, Json] = {}
    deltas: dict[str, Delta] = {}
    ids = []
    for row in new:
        id_ = str(row[by])
        ids.append(id_)
        was = before.get(id_)
        if was is None:
            rows[id_] = row
        elif was is not row and was != row:
            deltas[id_] = _of_objects(was, row)
    order = [] if list(before) == ids else ids
    return _without_empty({"by": by, "+": rows, "~": deltas, "order": order})


def _told_apart_by(old: list[Json], new: list[Json]) -> str | None:
    """Return by what the rows of both lists are told apart; None where they are no such lists."""
    if not old or not new or not isinstance(old[0], dict) or not isinstance(new[0], dict):
        return None
    for name in _IDS:
        if name in old[0] and name in new[0]:
            try:
                is_told = all(
                    len({str(row[name]) for row in rows}) == len(rows) for rows in (old, new)
                )
            except (KeyError, TypeError):
                continue
            if is_told:
                return name
    return None


def _without_empty(delta: Delta) -> Delta:
    return {name: value for name, value in delta.items() if value}
