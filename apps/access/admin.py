"""Accounts, grants and tokens in the admin. Changes go the way of all others: a new version.

Tokens are looked at and revoked here; their secrets are shown where they are issued.
"""

# Django names the arguments of these methods, whether we need them or not.
# ruff: noqa: ARG002

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect

from apps.access import policy, selectors, snapshot, tokens
from apps.access.models import AccountRole, ApiToken, Grant
from apps.access.snapshot import words_of
from apps.audit.admin import AuditedAdmin
from apps.core.actors import actor_of
from apps.core.admin import ReadOnlyAdmin

if TYPE_CHECKING:
    UserBase = UserAdmin[User]
    GrantBase = admin.ModelAdmin[Grant]
    FormBase = forms.ModelForm[Grant]
    InlineBase = admin.StackedInline[AccountRole, User]
else:
    UserBase, GrantBase, FormBase = UserAdmin, admin.ModelAdmin, forms.ModelForm
    InlineBase = admin.StackedInline

admin.site.unregister(User)
# Django's own groups of permissions decide nothing here.
admin.site.unregister(Group)


class RoleInline(InlineBase):
    """The role of an account."""

    model = AccountRole
    can_delete = False


@admin.register(User)
class AccountAdmin(AuditedAdmin, UserBase):
    """Accounts with their roles."""

    list_display = ["username", "role", "is_superuser", "is_active", "last_login"]
    list_filter = ["is_active", "is_superuser", "access_role__role"]
    list_select_related = ["access_role"]
    inlines = [RoleInline]
    fieldsets = [
        (None, {"fields": ["username", "password"]}),
        ("Person", {"fields": ["first_name", "last_name", "email"]}),
        ("May", {"fields": ["is_active", "is_staff", "is_superuser"]}),
        ("Times", {"fields": ["last_login", "date_joined"]}),
    ]
    filter_horizontal = []
    readonly_fields = ["last_login", "date_joined"]

    def kept_of(self, obj: Model) -> Mapping[str, object]:
        """Return what an entry keeps of an account, its role as well."""
        assert isinstance(obj, User)
        return {**super().kept_of(obj), "role": selectors.role_of(obj)}

    @admin.display(description="role", ordering="access_role__role")
    def role(self, user: User) -> str:
        """Return the role."""
        return selectors.role_of(user)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Show the form, or change the account under a new version."""
        if request.method != "POST":
            return super().changeform_view(request, *args, **kwargs)
        with transaction.atomic():
            snapshot.raise_version()
            answer = super().changeform_view(request, *args, **kwargs)
            if selectors.somebody_administers():
                return answer
            transaction.set_rollback(True)
        refusal = "Nothing is changed: no account could sign in and administer after that."
        self.message_user(request, refusal, messages.ERROR)
        return HttpResponseRedirect(request.path)

    def user_change_password(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Show the form, or set the password under a new version, which ends sessions."""
        if request.method != "POST":
            return super().user_change_password(request, *args, **kwargs)
        with transaction.atomic():
            snapshot.raise_version()
            return super().user_change_password(request, *args, **kwargs)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse: the page of access removes accounts, and sees that somebody is left."""
        return False


class GrantForm(FormBase):
    """A grant that makes sense."""

    class Meta:
        model = Grant
        fields = ["user", "effect", "kind", "match", "name", "actions", "sources"]

    def clean(self) -> dict[str, Any]:
        """Raise ValidationError for words that are no grant."""
        values = super().clean() or {}
        if self.errors:
            return values
        row = Grant(**{name: values[name] for name in values if name != "user"})
        try:
            policy.checked(**words_of(row))
        except (TypeError, ValueError) as error:
            raise ValidationError(str(error)) from error
        return values


@admin.register(Grant)
class GrantAdmin(AuditedAdmin, GrantBase):
    """Grants of all accounts."""

    form = GrantForm  # type: ignore[assignment]
    list_display = ["user", "effect", "kind", "match", "name", "actions", "created_by"]
    list_filter = ["effect", "kind", "match"]
    list_select_related = ["user"]
    search_fields = ["name", "user__username"]
    show_full_result_count = False

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        """Keep the grant under a new version."""
        assert isinstance(obj, Grant)
        snapshot.raise_version()
        if not change:
            obj.created_by = actor_of(request)
        super().save_model(request, obj, form, change)

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        """Take the grant back under a new version."""
        snapshot.raise_version()
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Grant]) -> None:
        """Take grants back under a new version."""
        with transaction.atomic():
            snapshot.raise_version()
            super().delete_queryset(request, queryset)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Tokens, as far as anybody can know them."""

    list_display = [
        "prefix", "user", "label", "expires_at", "last_used_at", "revoked_at", "created_by",
    ]  # fmt: skip
    list_filter = ["revoked_at"]
    list_select_related = ["user"]
    search_fields = ["prefix", "label", "user__username"]
    fields = [
        "prefix", "user", "label", "scopes", "expires_at", "last_used_at", "created_at",
        "created_by", "revoked_at", "revoked_by",
    ]  # fmt: skip
    actions = ["revoke"]

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Allow it to those who may change tokens, although nobody may edit their rows."""
        return request.user.has_perm("access.change_apitoken")

    @admin.action(description="Revoke for good", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Revoke the chosen tokens."""
        numbers = list(queryset.values_list("pk", flat=True))
        for number in numbers:
            tokens.revoke_token(number=number, by=actor_of(request))
        self.message_user(request, f"{len(numbers)} revoked", messages.SUCCESS)
