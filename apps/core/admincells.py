"""Cells of the admin in words: durations, sizes, figures, and what is kept as JSON. Knows no model.

A list and the page of a row name fields; `in_words` puts columns that say the same to people in
the place of those that are raw.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.utils.functional import lazy
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import ngettext

from apps.core.amounts import duration, size

# As Django writes it, which it does itself for fields only.
NOTHING = "-"
# The unit that a raw number needs behind its name; the cell says it itself.
_UNIT = re.compile(r"\s*[(\uff08](?:ms|bytes|毫秒|字节)[)\uff09]")
# Of a list or a mapping, line by line; the rest is counted.
_LINES_MAX = 50

Cell = Callable[[Any], object]


def in_words(model: type[models.Model], names: Sequence[Any]) -> list[Any]:
    """Return fields and columns of a page by name, and columns in words for those of raw fields."""
    return [_cell_of(model, name) or name for name in names]


@cache
def _cell_of(model: type[models.Model], name: Any) -> Cell | None:
    try:
        field = model._meta.get_field(name) if isinstance(name, str) else None
    except FieldDoesNotExist:
        return None
    say = _say_of(field) if isinstance(field, models.Field) else None
    if field is None or say is None:
        return None
    attribute = field.name

    def shown(row: models.Model) -> object:
        value = getattr(row, attribute)
        return NOTHING if value is None or value in ({}, [], "") else say(value)

    shown.__name__ = f"{attribute}_said"
    return admin.display(shown, description=_name_of(field), ordering=attribute)


def _say_of(field: Any) -> Cell | None:
    if isinstance(field, models.JSONField):
        return lines_of
    name = re.sub(r"_(?:min|max)$", "", field.name)
    is_number = isinstance(field, models.IntegerField | models.FloatField)
    if is_number and name.endswith("_ms"):
        return lambda value: _whole(str(duration(round(value))))
    if is_number and name.endswith("_bytes"):
        return lambda value: _whole(size(value))
    return figure if isinstance(field, models.FloatField) else None


def _name_of(field: Any) -> Any:  # A text that is put into words when it is read.
    return lazy(lambda: capfirst(_UNIT.sub("", str(field.verbose_name))), str)()


def _whole(amount: str) -> str:
    """Return an amount that is not broken between its number and its unit."""
    return amount.replace(" ", "\N{NO-BREAK SPACE}")


def figure(value: float) -> str:
    """Return a figure with as many digits as anybody reads."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:.3g}"


def lines_of(value: Any) -> SafeString | str:
    """Return a value of JSON as lines: what a mapping names, and what a list has, below each other.

    A list of single values is one line.
    """
    if isinstance(value, Mapping):
        lines = [f"{name}: {_flat(below)}" for name, below in value.items()]
    elif isinstance(value, list) and any(isinstance(below, list | dict) for below in value):
        lines = [_flat(below) for below in value]
    else:
        return _flat(value)
    return broken(lines)


def broken(lines: Sequence[str]) -> SafeString:
    """Return lines below each other, and how many more there are than anybody reads."""
    rest = len(lines) - _LINES_MAX
    more = [ngettext("and %(n)d more", "and %(n)d more", rest) % {"n": rest}] if rest > 0 else []
    return format_html_join("", "<div>{}</div>", ((line,) for line in [*lines[:_LINES_MAX], *more]))


def _flat(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_flat, value)) or NOTHING
    if isinstance(value, Mapping):
        said = [
            f"{name} {_flat(below)}" for name, below in value.items() if below not in (None, "")
        ]
        return ", ".join(said) or NOTHING
    if value is None or value == "":
        return NOTHING
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
