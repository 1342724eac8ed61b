"""What changed from one value of JSON to the next, small enough to be sent each second. Pure.

`static/console/delta.js` carries deltas out; a test has both agree. A delta is one of

    {"=": value}                                     the value is this one now
    {"+": {name: value}, "~": {name: delta}, "-": [name]}           of an object
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


def delta_of(old: Json, new: Json) -> Delta | None:
    """Return what makes `new` of `old`; None where nothing has changed.

    A truth value and the number it equals are taken for the same: no place of a picture has both.
    """
    if old is new or old == new:
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        return _of_objects(old, new)
    if isinstance(old, list) and isinstance(new, list):
        return _of_lists(old, new)
    return {"=": new}


def _of_objects(old: Mapping[str, Json], new: Mapping[str, Json]) -> Delta:
    added = {name: value for name, value in new.items() if name not in old}
    changed = {
        name: delta
        for name, value in new.items()
        if name in old and (delta := delta_of(old[name], value)) is not None
    }
    gone = [name for name in old if name not in new]
    return _without_empty({"+": added, "~": changed, "-": gone})


def _of_lists(old: list[Json], new: list[Json]) -> Delta:
    by = next((name for name in _IDS if _tells_apart(name, old) and _tells_apart(name, new)), None)
    if by is None or not old or not new:
        return {"=": new}
    before = {str(row[by]): row for row in old}
    after = {str(row[by]): row for row in new}
    added = {id_: row for id_, row in after.items() if id_ not in before}
    changed = {
        id_: delta
        for id_, row in after.items()
        if id_ in before and (delta := delta_of(before[id_], row)) is not None
    }
    order = [] if list(before) == list(after) else list(after)
    return _without_empty({"by": by, "+": added, "~": changed, "order": order})


def _tells_apart(name: str, rows: list[Json]) -> bool:
    if not all(isinstance(row, dict) and name in row for row in rows):
        return False
    return len({str(row[name]) for row in rows}) == len(rows)


def _without_empty(delta: Delta) -> Delta:
    return {name: value for name, value in delta.items() if value}
