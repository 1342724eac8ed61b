"""Shapes of accounts, grants and tokens on the wire. A token's secret is in one answer only."""

from typing import Any

from django.contrib.auth.models import User
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from apps.access import policy, selectors
from apps.access.models import ApiToken, Grant, Role
from apps.access.snapshot import words_of
from apps.core.exceptions import ProblemError
from apps.core.pagination import rfc3339_or_none, sampled_at
from apps.core.serializers import (
    StrictBooleanField,
    StrictChoiceField,
    StrictSerializer,
    StrictTextField,
)

_NUMBER_DIGITS_MAX = 18


class StrictTextsField(serializers.ListField):
    """A JSON array of strings."""

    child = StrictTextField()


class AccountCreate(StrictSerializer):
    """Body of a POST: a new account."""

    account = StrictTextField(max_length=150, help_text="Its name; cannot be changed.")
    password = StrictTextField(
        required=False, max_length=1024, write_only=True,
        help_text="Without one it is a program's: it cannot sign in, and has tokens only.",
    )  # fmt: skip
    role = StrictChoiceField(Role.values, required=False, help_text="none unless given.")


class AccountChange(StrictSerializer):
    """Body of a PUT. What is left out keeps its value."""

    role = StrictChoiceField(Role.values, required=False)
    is_active = StrictBooleanField(
        required=False, help_text="False ends its sessions, and its tokens are refused."
    )
    password = StrictTextField(required=False, max_length=1024, write_only=True)


class AccountDocument(serializers.Serializer[Any]):
    """An account in an answer."""

    account = serializers.CharField()
    role = serializers.ChoiceField(Role.values)
    is_super = serializers.BooleanField(help_text="May do everything, whatever its grants say.")
    is_active = serializers.BooleanField()
    can_sign_in = serializers.BooleanField(help_text="It has a password and is active.")
    last_sign_in = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    sampled_at = serializers.DateTimeField()


class AccountList(serializers.Serializer[Any]):
    """A page of accounts."""

    items = AccountDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class Scope(StrictSerializer):
    """What a grant is about, and which actions; a token's scope is such an allowance."""

    kind = StrictChoiceField([kind.value for kind in policy.Kind])
    match = StrictChoiceField(
        [match.value for match in policy.Match], required=False, help_text="literal unless given."
    )
    name = StrictTextField(required=False, allow_blank=True, max_length=127)
    actions = StrictTextsField(max_length=len(policy.Action))
    sources = StrictTextsField(
        required=False, max_length=32, help_text="Networks such as 10.0.0.0/8; none is anywhere."
    )


class GrantCreate(Scope):
    """Body of a POST: a new grant."""

    account = StrictTextField(max_length=150)
    effect = StrictChoiceField(
        [effect.value for effect in policy.Effect], required=False, help_text="allow unless given."
    )


class GrantDocument(serializers.Serializer[Any]):
    """A grant in an answer."""

    grant = serializers.CharField(help_text="Its number.")
    account = serializers.CharField()
    effect = serializers.ChoiceField([effect.value for effect in policy.Effect])
    kind = serializers.ChoiceField([kind.value for kind in policy.Kind])
    match = serializers.ChoiceField([match.value for match in policy.Match])
    name = serializers.CharField(allow_blank=True)
    actions = serializers.ListField(child=serializers.CharField())
    sources = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField()


class GrantList(serializers.Serializer[Any]):
    """A page of grants."""

    items = GrantDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class TokenCreate(StrictSerializer):
    """Body of a POST: a new token."""

    account = StrictTextField(max_length=150)
    label = StrictTextField(max_length=80, help_text="What it is for.")  # type: ignore[assignment]
    scopes = Scope(many=True, required=False)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class TokenDocument(serializers.Serializer[Any]):
    """A token in an answer."""

    token = serializers.CharField(help_text="Its number.")
    account = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    prefix = serializers.CharField(help_text="How the secret begins.")
    scopes = Scope(many=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="To the minute.")
    revoked_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField()


class IssuedDocument(TokenDocument):
    """A new token with its secret, which no other answer has."""

    secret = serializers.CharField()
    access_key = serializers.CharField()
    secret_key = serializers.CharField()


class TokenList(serializers.Serializer[Any]):
    """A page of tokens."""

    items = TokenDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


def rendered_account(user: User) -> dict[str, object]:
    """Build the JSON shape of an account."""
    return {
        "account": user.get_username(),
        "role": selectors.role_of(user),
        "is_super": user.is_superuser,
        "is_active": user.is_active,
        "can_sign_in": selectors.may_sign_in(user),
        "last_sign_in": rfc3339_or_none(user.last_login),
        "created_at": rfc3339_or_none(user.date_joined),
        "sampled_at": sampled_at(),
    }


def rendered_grant(row: Grant) -> dict[str, object]:
    """Build the JSON shape of a grant."""
    return {
        "grant": str(row.pk),
        "account": row.user.get_username(),
        **words_of(row),
        "created_at": rfc3339_or_none(row.created_at),
        "created_by": row.created_by,
    }


def rendered_token(row: ApiToken) -> dict[str, object]:
    """Build the JSON shape of a token."""
    return {
        "token": str(row.pk),
        "account": row.user.get_username(),
        "label": row.label,
        "prefix": row.prefix,
        "scopes": row.scopes,
        "expires_at": rfc3339_or_none(row.expires_at),
        "last_used_at": rfc3339_or_none(row.last_used_at),
        "revoked_at": rfc3339_or_none(row.revoked_at),
        "created_at": rfc3339_or_none(row.created_at),
        "created_by": row.created_by,
    }


def words(values: dict[str, Any]) -> dict[str, Any]:
    """Return a scope as `policy.checked` takes it."""
    return {
        "kind": values["kind"],
        "actions": values["actions"],
        "match": values.get("match", policy.Match.LITERAL.value),
        "name": values.get("name", ""),
        "sources": values.get("sources", []),
    }


def number_of(text: str, what: str) -> int:
    """Return the number in an address; refuse any other text as `not_found`."""
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX):
        raise ProblemError("not_found", f"there is no {what} {text[:40]!r}")
    return int(text)


def checked_query(text: str | None) -> str | None:
    """Return the account a list is narrowed to; raise ValidationError."""
    if text is not None and (not text or "\0" in text):
        raise ValidationError({"account": ["is no name of an account"]})
    return text
