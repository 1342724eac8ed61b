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
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.access import factors, policy, selectors, sessions, snapshot, tokens
from apps.access.models import AccountRole, AccountSession, ApiToken, Grant, SecondFactor
from apps.access.snapshot import words_of
from apps.audit.admin import AuditedAdmin
from apps.core.actors import actor_of
from apps.core.admin import ReadOnlyAdmin
from apps.core.adminacts import Call, Chosen, confirmed

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
        (gettext_lazy("Person"), {"fields": ["first_name", "last_name", "email"]}),
        (gettext_lazy("May"), {"fields": ["is_active", "is_staff", "is_superuser"]}),
        (gettext_lazy("Times"), {"fields": ["last_login", "date_joined"]}),
    ]
    filter_horizontal = []
    readonly_fields = ["last_login", "date_joined"]

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kw: Any) -> Any:
        """Return a field of the form; `is_staff` says when it counts."""
        if db_field.name == "is_staff":
            kw["help_text"] = _(
                "Whether this account enters the admin while access is off. With access on, roles "
                "and grants decide."
            )
        return super().formfield_for_dbfield(db_field, request, **kw)

    def kept_of(self, obj: Model) -> Mapping[str, object]:
        """Return what an entry keeps of an account, its role as well."""
        assert isinstance(obj, User)
        return {**super().kept_of(obj), "role": selectors.role_of(obj)}

    @admin.display(description=gettext_lazy("role"), ordering="access_role__role")
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
        refusal = _("Nothing is changed: no account could sign in and administer after that.")
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
    list_filter = [("revoked_at", admin.EmptyFieldListFilter), "expires_at"]
    list_select_related = ["user"]
    date_hierarchy = "created_at"
    search_fields = ["prefix", "label", "user__username"]
    fields = [
        "prefix", "user", "label", "scopes", "expires_at", "last_used_at", "created_at",
        "created_by", "revoked_at", "revoked_by",
    ]  # fmt: skip
    actions = ["revoke"]

    @confirmed(
        description=gettext_lazy("Revoke for good"),
        title=gettext_lazy("Revoke tokens"),
        said=gettext_lazy("Whoever uses such a token is refused within a second, for good."),
        button=gettext_lazy("Revoke them"),
        call=Call("DELETE", "api/v1/tokens/<str:token>"),
        permission="access.change_apitoken",
        parts=lambda token: {"token": str(token.pk)},
        rows_of=lambda tokens: tokens.filter(revoked_at=None),
        things_max=1_000,
    )
    def revoke(self, request: HttpRequest, token: ApiToken, _chosen: Chosen) -> str:
        """Revoke one token."""
        tokens.revoke_token(number=token.pk, by=actor_of(request))
        return _("%(token)s is revoked") % {"token": token}


@admin.register(AccountSession)
class AccountSessionAdmin(ReadOnlyAdmin):
    """Who signed in where; a session that has just ended by itself is listed for a while."""

    list_display = ["user", "begun_at", "seen_at", "address", "agent"]
    list_select_related = ["user"]
    date_hierarchy = "seen_at"
    search_fields = ["user__username", "address"]
    fields = ["user", "begun_at", "seen_at", "address", "agent"]
    actions = ["end"]

    @confirmed(
        description=gettext_lazy("End, with their live pages"),
        title=gettext_lazy("End sessions"),
        said=gettext_lazy("Whoever works in such a session has to sign in again."),
        button=gettext_lazy("End them"),
        call=Call("POST", "api/v1/accounts/<str:account>/sessions:end"),
        permission="access.change_accountsession",
        parts=lambda session: {"account": session.user.get_username()},
    )
    def end(self, request: HttpRequest, session: AccountSession, _chosen: Chosen) -> str:
        """End one session."""
        sessions.end_one(user=session.user, number=session.pk, by=actor_of(request))
        return _("%(session)s has ended") % {"session": session}


@admin.register(SecondFactor)
class SecondFactorAdmin(ReadOnlyAdmin):
    """Who signs in with a code as well, and what nobody confirmed yet."""

    list_display = ["user", "begun_at", "confirmed_at"]
    list_filter = [("confirmed_at", admin.EmptyFieldListFilter)]
    list_select_related = ["user"]
    search_fields = ["user__username"]
    fields = ["user", "begun_at", "confirmed_at"]
    actions = ["turn_off"]

    @confirmed(
        description=gettext_lazy("Turn off for who has lost their codes"),
        title=gettext_lazy("Turn second factors off"),
        said=gettext_lazy("Such an account signs in with its password alone."),
        button=gettext_lazy("Turn them off"),
        call=Call("POST", "api/v1/accounts/<str:account>/second-factor:off"),
        permission="access.change_secondfactor",
        parts=lambda factor: {"account": factor.user.get_username()},
        rows_of=lambda rows: rows.exclude(confirmed_at=None),
        name_of=lambda factor: factor.user.get_username(),
    )
    def turn_off(self, request: HttpRequest, factor: SecondFactor, _chosen: Chosen) -> str:
        """Turn one off."""
        by = actor_of(request)
        factors.turn_off_another(user=factor.user, asking_id=request.user.pk, by=by)
        return _("%(name)s signs in with a password alone.") % {"name": factor.user}
