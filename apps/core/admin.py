"""Admin pages to look at and not to change. Knows no model."""

# Django names the arguments of these methods, whether we need them or not.
# ruff: noqa: ARG002

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Model
from django.http import HttpRequest
from django.utils.functional import cached_property

from apps.core.adminacts import ActingAdmin

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


class ReadOnlyAdmin(ActingAdmin):
    """Rows that something else keeps; counting all of them is never asked of the database."""

    show_full_result_count = False
    # The audit has what was done to them; Django notes only what it changed itself.
    shows_history = False
    list_per_page = 50
    paginator = NewestRows

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False
