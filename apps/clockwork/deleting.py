"""Deletion of old rows in bounded steps, by several workers at once. Knows no model."""

from typing import TypeVar

from django.db import transaction
from django.db.models import Model, QuerySet

_Row = TypeVar("_Row", bound=Model)


def delete_some(rows: QuerySet[_Row], *, rows_max: int) -> int:
    """Delete the first `rows_max` of ordered rows, and return how many that were.

    What another worker holds is passed over: two of us then delete different rows, instead of
    waiting for each other in a circle.
    """
    with transaction.atomic():
        locked = rows.select_for_update(skip_locked=True)
        keys = list(locked.values_list("pk", flat=True)[:rows_max])
        rows.model._default_manager.filter(pk__in=keys).delete()
    return len(keys)
