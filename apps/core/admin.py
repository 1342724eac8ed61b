"""Admin pages to look at and not to change. Knows no model."""

# Django names the arguments of these methods, whether we need them or not.
# ruff: noqa: ARG002

from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

if TYPE_CHECKING:
    # Generic for type checkers only: Django's own class takes no parameter.
    Base = admin.ModelAdmin[Model]
else:
    Base = admin.ModelAdmin


class ReadOnlyAdmin(Base):
    """Rows that something else keeps; counting all of them is never asked of the database."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False
