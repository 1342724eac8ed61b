"""`{% cut rows rows_max "newest" %}`: says that a list is cut. Knows how many rows there are.

A list is asked for so many rows and no more, so one that is full may have others beyond its end.
"""

from collections.abc import Sized
from typing import Any

from django import template

register = template.Library()


@register.inclusion_tag("console/parts/cut.html")
def cut(rows: Sized | None, rows_max: int, which: str = "first") -> dict[str, Any]:
    """Return what is said beneath a list; nothing of one that has room, or is not known."""
    is_cut = rows is not None and len(rows) >= rows_max
    return {"is_cut": is_cut, "rows_max": rows_max, "is_newest": which == "newest"}
