"""Admin of the audit log, to look at; and what other admins are made of whose changes go into it.

Rows without a service of ours are changed by the admin alone, so what it changes is kept here.
"""

# Django names the arguments of these methods, whether we need them or not.

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import translation
from django.utils.translation import gettext_lazy

from apps.audit import words
from apps.audit.models import AuditEntry
from apps.audit.services import recorded
from apps.core.actors import actor_of
from apps.core.admin import ReadOnlyAdmin
from apps.core.adminacts import ActingAdmin
from apps.core.languages import DEFAULT
from apps.core.phrases import read

if TYPE_CHECKING:
    # Generic for type checkers only: Django's own class takes no parameter.
    Base = admin.ModelAdmin[Model]
else:
    Base = admin.ModelAdmin


class KindFilter(admin.AllValuesFieldListFilter):
    """Kinds of objects, as they are called."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Yield the choices, with words for the values that entries keep."""
        for choice in super().choices(changelist):
            yield {**choice, "display": read(words.kind(str(choice["display"])))}


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """Entries, the newest first."""

    list_display = [
        "number", "at", "by", "act_said", "kind_said", "name", "result", "door", "reason",
    ]  # fmt: skip
    list_filter = ["result", "door", ("kind", KindFilter), "at"]
    fields = [
        "number", "at", "by", "door", "address", "agent", "request_id", "act_said", "kind_said",
        "name", "reason", "before", "after", "result", "code", "detail", "follows", "count",
        "previous_hash", "hash",
    ]  # fmt: skip
    readonly_fields = ["act_said", "kind_said"]
    search_fields = ["by__exact", "act__startswith", "name__exact", "request_id__exact"]
    search_help_text = gettext_lazy("Who, an object or a request, whole; or how an act begins.")
    date_hierarchy = "at"

    @admin.display(description=gettext_lazy("act"), ordering="act")
    def act_said(self, entry: AuditEntry) -> str:
        """Return what the act is called."""
        return read(words.act(entry.act))

    @admin.display(description=gettext_lazy("kind"), ordering="kind")
    def kind_said(self, entry: AuditEntry) -> str:
        """Return what the kind of its object is called."""
        return read(words.kind(entry.kind))


class AuditedAdmin(ActingAdmin):
    """Rows without a service: each change of one through the admin is an entry of the audit log.

    An entry is in the transaction of its change, with the values before and after it.
    """

    _BEFORE = "_audit_before"

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        """Save, and remember what was there."""
        found = type(obj)._default_manager.filter(pk=obj.pk).first() if change else None
        setattr(request, self._BEFORE, None if found is None else self.kept_of(found))
        super().save_model(request, obj, form, change)

    def kept_of(self, obj: Model) -> Mapping[str, object]:
        """Return what an entry keeps of a row; for those to add to whose rows have other parts."""
        return values_of(obj)

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        """Keep that a row was made, once everything that belongs to it is there."""
        self._keep(request, "admin.create", obj, message)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        """Keep that a row was changed; a password only by the fact."""
        self._keep(request, "admin.change", obj, message)
        return super().log_change(request, obj, message)

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        """Delete a row, and keep what it was."""
        with recorded(
            by=actor_of(request),
            act="admin.delete",
            kind=obj._meta.model_name or "",
            name=_name_of(obj),
            before=self.kept_of(obj),
        ):
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete rows one by one, in one transaction."""
        with transaction.atomic():
            for obj in queryset:
                self.delete_model(request, obj)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Show the list; what is changed in its cells is one transaction with its entries."""
        with transaction.atomic():
            return super().changelist_view(request, *args, **kwargs)

    def _keep(self, request: HttpRequest, act: str, obj: Model, message: Any) -> None:
        now = type(obj)._default_manager.get(pk=obj.pk)
        with recorded(
            by=actor_of(request),
            act=act,
            kind=obj._meta.model_name or "",
            name=_name_of(obj),
            before=getattr(request, self._BEFORE, None),
        ) as entry:
            entry.after = self.kept_of(now)
            entry.detail = _fields_of(message)


def values_of(obj: Model) -> Mapping[str, object]:
    """Return what a row says, with the names of what it is connected to; secrets are left out."""
    found: dict[str, object] = {
        field.name: field.value_from_object(obj) for field in obj._meta.concrete_fields
    }
    for many in obj._meta.many_to_many:
        found[many.name] = sorted(str(one) for one in many.value_from_object(obj))
    return found


def _name_of(obj: Model) -> str:
    """Return what a row is called in English: entries are the same whoever made them."""
    with translation.override(DEFAULT):
        return str(obj)


def _fields_of(message: Any) -> str:  # Django's account of a change: a list, or a text.
    """Return the names of the fields that a form has changed; those of secrets, too."""
    parts = message if isinstance(message, list) else []
    fields = [name for part in parts for name in part.get("changed", {}).get("fields", [])]
    return f"fields: {', '.join(map(str, fields))}" if fields else ""
