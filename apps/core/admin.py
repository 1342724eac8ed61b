"""Admin pages to look at and not to change. Knows no model."""

# Django names the arguments of these methods, whether we need them or not.
# ruff: noqa: ARG002

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin
from django.core.paginator import Paginator
from django.db import models
from django.db.models import Model
from django.http import HttpRequest
from django.utils.functional import cached_property

from apps.core.adminacts import ActingAdmin
from apps.core.admincells import in_words

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django_stubs_ext import StrOrPromise

# There may be millions of rows, and counting them would take longer than anyone waits for a page;
# so would going through them page by page, which passes all that came before.
ROWS_SHOWN_MAX = 10_000


class NewestRows(Paginator):  # type: ignore[type-arg]  # Rows of any model.
    """Pages of the newest rows; older ones are found by filter and search."""

    @cached_property
    def count(self) -> int:
        """Return how many rows there are, as far as they are shown."""
        return cast("QuerySet[Model]", self.object_list)[:ROWS_SHOWN_MAX].count()


def key_of(name: str, description: "StrOrPromise") -> Callable[[Model], Any]:
    """Return a column with the key of what a row refers to, which no query is needed for."""

    @admin.display(description=description, ordering=f"{name}_id")
    def shown(row: Model) -> Any:  # A key of some model, or none.
        return getattr(row, f"{name}_id")

    shown.__name__ = f"{name}_id"
    return shown


class DecidedAdmin(ActingAdmin):
    """Rows that people decide about by a form of `fields`; who may only look reads words."""

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Return the fields of the form; for who may not change a row, what the row has of them."""
        found = super().get_fields(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return found
        kept = {field.name for field in self.model._meta.fields}
        return in_words(self.model, [name for name in found if name in kept])

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Return what is fixed, and what is in words."""
        own = super().get_readonly_fields(request, obj)
        return [*own, *(one for one in self.get_fields(request, obj) if callable(one))]


class ReadOnlyAdmin(ActingAdmin):
    """Rows that something else keeps; counting all of them is never asked of the database."""

    show_full_result_count = False
    # The audit has what was done to them; Django notes only what it changed itself.
    shows_history = False
    list_per_page = 50
    paginator = NewestRows

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Return what the page of a row shows, in words where its fields are raw."""
        shown = self.fields or [
            field.name
            for field in self.model._meta.fields
            if field.editable
            and not isinstance(field, models.AutoField)
            and field.name not in (self.exclude or ())
        ]
        return in_words(self.model, list(shown))

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Return all that is no field of a form: there is none here."""
        own = super().get_readonly_fields(request, obj)
        return [*own, *(one for one in self.get_fields(request, obj) if callable(one))]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False
