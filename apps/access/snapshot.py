"""Rows to the book that decisions are made from, and its way to this process's doors.

The database decides. A process keeps the newest book it has read, also while the database is away.
"""

import binascii
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import transaction

from apps.access import internal, policy
from apps.access.keypairs import secret_key_of
from apps.access.models import AccessVersion, AccountRole, ApiToken, Grant, SecondFactor
from apps.access.policy.book import Account, by_access_key

_log = logging.getLogger("mqweb.access")

_book: policy.Book | None = None


def current() -> policy.Book | None:
    """Return the newest book of this process; None before the first."""
    return _book


def install(book: policy.Book | None) -> None:
    """Take a book, unless a newer one is there; None forgets all."""
    global _book
    if book is None or _book is None or book.version >= _book.version:
        _book = book


def stored_version() -> int:
    """Return the version in the database; 0 when nothing was ever written."""
    row = AccessVersion.objects.filter(pk=1).first()
    return 0 if row is None else row.version


def raise_version() -> None:
    """Raise the version; call inside the changing transaction, which holds its row from then on."""
    AccessVersion.objects.get_or_create(pk=1)
    row = AccessVersion.objects.select_for_update().get(pk=1)
    row.version += 1
    row.save(update_fields=["version"])
    transaction.on_commit(publish)


def publish() -> None:
    """Let the doors of this process decide by what the database says."""
    install(build())


def build() -> policy.Book:
    """Read everything; what is read is at least as new as the version says."""
    version = stored_version()
    roles = dict(AccountRole.objects.values_list("user_id", "role"))
    grants: defaultdict[int, list[policy.Grant]] = defaultdict(list)
    for row in Grant.objects.all():
        grants[row.user_id].append(_grant_of(row))
    confirmed = SecondFactor.objects.filter(confirmed_at__isnull=False)
    with_factor = set(confirmed.values_list("user_id", flat=True))
    accounts = {
        user.pk: _account_of(
            user,
            roles.get(user.pk, policy.Role.NONE.value),
            grants[user.pk],
            has_factor=user.pk in with_factor,
        )
        for user in get_user_model().objects.filter(is_active=True)
    }
    tokens = dict(_tokens_of(accounts))
    own = internal.entry(settings.SECRET_KEY)
    return policy.Book(
        version=version,
        accounts=accounts,
        tokens={own.digest: own, **tokens},
        signing=by_access_key(tokens.values()),
    )


def _account_of(
    user: User, role: str, grants: Iterable[policy.Grant], *, has_factor: bool
) -> Account:
    principal = policy.Principal(
        user.get_username(),
        [*policy.grants_of(policy.Role(role)), *grants],
        is_super=user.is_superuser,
    )
    demanded = settings.MQWEB.second_factor
    is_demanded = role in demanded or (user.is_superuser and policy.Role.ADMIN in demanded)
    return Account(
        principal=principal,
        mark=user.get_session_auth_hash(),
        has_factor=has_factor,
        lacks_factor=is_demanded and not has_factor,
    )


def _tokens_of(accounts: Mapping[int, Account]) -> Iterable[tuple[bytes, policy.Token]]:
    for row in ApiToken.objects.filter(revoked_at=None, user_id__in=accounts):
        digest = binascii.unhexlify(row.digest)
        try:
            scopes = [policy.checked(**scope) for scope in row.scopes]
        except (TypeError, ValueError):
            # One that cannot be read narrows to nothing, so the token is no good at all.
            _log.error("scopes_unreadable", extra={"token": row.prefix})
            continue
        yield (
            digest,
            policy.Token(
                number=row.pk,
                digest=digest,
                principal=accounts[row.user_id].principal.narrowed(scopes),
                label=f"{accounts[row.user_id].principal.name} (token {row.prefix})",
                account=row.user_id,
                access_key=row.prefix,
                secret_key=secret_key_of(digest, settings.SECRET_KEY),
                expires_ms=None
                if row.expires_at is None
                else int(row.expires_at.timestamp() * 1000),
            ),
        )


def _grant_of(row: Grant) -> policy.Grant:
    """Return a row's grant; one that cannot be read denies all it might have been about."""
    try:
        return policy.checked(**words_of(row))
    except (TypeError, ValueError):
        _log.error("grant_unreadable", extra={"grant": row.pk})
        kind = policy.Kind(row.kind)
        return policy.Grant(
            kind=kind,
            actions=policy.ACTIONS_OF[kind],
            match=policy.Match(row.match),
            name=row.name,
            effect=policy.Effect.DENY,
        )


def words_of(row: Grant) -> dict[str, Any]:
    """Return a grant as `policy.checked` and callers of the API write it."""
    return {
        "kind": row.kind,
        "actions": row.actions,
        "match": row.match,
        "name": row.name,
        "effect": row.effect,
        "sources": row.sources,
    }
