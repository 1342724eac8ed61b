"""Makes rows what they should be by writing the difference. Knows columns, and no model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Model, QuerySet

_Row = TypeVar("_Row", bound=Model)
Key = tuple[Any, ...]  # Values of columns, of whatever type these have.
Columns = Mapping[str, Any]

# A row carries up to a dozen values; PostgreSQL takes 65,535 in one statement.
_ROWS_PER_STATEMENT = 3_000


@dataclass(frozen=True, slots=True)
class Levelled(Generic[_Row]):
    """How many rows were written, and those nobody wants any more: the caller knows what to do."""

    written: int
    unwanted: QuerySet[_Row]


def level(
    held: QuerySet[_Row],
    wanted: Mapping[Key, _Row],
    *,
    keys: Sequence[str],
    compared: Sequence[str],
    written: Sequence[str] = (),
    merge: Callable[[_Row, Columns], None] | None = None,
) -> Levelled[_Row]:
    """Write the rows of `wanted` that are missing in `held` or differ in a `compared` column.

    `wanted` is by the values of the `keys`, on which the model has a unique constraint. A row that
    exists gets its compared and `written` columns; `merge` may first change what is written by what
    was there.
    """
    columns = ["pk", *keys, *compared, *written]
    found = {
        tuple(values[1 : 1 + len(keys)]): dict(zip(columns, values, strict=True))
        for values in held.order_by().values_list(*columns).iterator()
    }
    outdated = []
    for key, row in sorted(wanted.items(), key=lambda item: item[0]):
        before = found.get(key)
        if before is None:
            outdated.append(row)
        elif any(before[column] != getattr(row, column) for column in compared):
            if merge is not None:
                merge(row, before)
            outdated.append(row)
    manager = held.model._default_manager
    if outdated:
        manager.bulk_create(
            outdated,
            batch_size=_ROWS_PER_STATEMENT,
            update_conflicts=True,
            unique_fields=keys,
            update_fields=[*compared, *written],
        )
    unwanted = [before["pk"] for key, before in found.items() if key not in wanted]
    return Levelled(len(outdated), manager.filter(pk__in=unwanted))
