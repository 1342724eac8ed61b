"""Issue and revoke tokens: one transaction each; doors are told after the commit."""

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings

from apps.access import policy, selectors, snapshot
from apps.access.accounts import checked
from apps.access.keypairs import KeyPair, secret_key_of
from apps.access.models import LABEL_CHARACTERS_MAX, ApiToken
from apps.audit.services import recorded
from apps.core.moments import moment
from apps.core.phrases import sentence
from apps.engine.clock import Clock, SystemClock
from apps.engine.errors import InvalidArgument

_PREFIX = "mqt_"
# 256 bits.
_SECRET_BYTES = 32
# Of the secret's 43 characters: enough to tell tokens apart, too little to guess from.
_SHOWN_CHARACTERS = 8
_SCOPES_MAX = 50

_log = logging.getLogger("mqweb.access")


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A new token; `secret` is to be shown once, and is kept nowhere."""

    row: ApiToken
    secret: str = field(repr=False)
    keys: KeyPair
    """The same token for clients that sign instead of sending it."""


def issue_token(
    *,
    name: str,
    label: str,
    scopes: Sequence[dict[str, Any]] = (),
    expires_at: datetime | None = None,
    by: str,
    clock: Clock | None = None,
) -> Issued:
    """Issue a token of an account; `scopes` are allowing grants, and can only narrow its rights.

    Raises ProblemError `not_found`, InvalidArgument.
    """
    if not 1 <= len(label) <= LABEL_CHARACTERS_MAX or not label.isprintable():
        raise InvalidArgument(
            sentence(
                "a label has 1 to %(label_characters_max)s printable characters",
                label_characters_max=LABEL_CHARACTERS_MAX,
            )
        )
    if len(scopes) > _SCOPES_MAX:
        raise InvalidArgument(
            sentence("a token has at most %(scopes_max)s scopes", scopes_max=_SCOPES_MAX)
        )
    now = moment((clock or SystemClock()).wall_ms())
    if expires_at is not None and expires_at <= now:
        raise InvalidArgument(sentence("expires_at lies in the past"))
    narrowed = [_scope(scope) for scope in scopes]
    text = secrets.token_urlsafe(_SECRET_BYTES)
    secret = f"{_PREFIX}{text}"
    with recorded(by=by, act="token.issue", kind="account", name=name) as entry:
        snapshot.raise_version()
        row = ApiToken.objects.create(
            user=selectors.account(name),
            label=label,
            prefix=secret[: len(_PREFIX) + _SHOWN_CHARACTERS],
            digest=policy.digest_of(secret.encode()).hex(),
            scopes=narrowed,
            expires_at=expires_at,
            created_by=by[:255],
        )
        entry.after = _told(row)
    _log.info("token_issued", extra={"account": name, "token": row.prefix, "by": by})
    secret_key = secret_key_of(policy.digest_of(secret.encode()), settings.SECRET_KEY)
    keys = KeyPair(access_key=row.prefix, secret_key=secret_key)
    return Issued(row=row, secret=secret, keys=keys)


def revoke_token(*, number: int, by: str, clock: Clock | None = None) -> ApiToken:
    """Revoke a token for good; streams that are open with it end within a second.

    To revoke one twice changes nothing. Raises ProblemError `not_found`.
    """
    with recorded(by=by, act="token.revoke", kind="token", name=str(number)) as entry:
        snapshot.raise_version()
        row = selectors.token(number)
        entry.kind, entry.name, entry.before = "account", row.user.get_username(), _told(row)
        if row.revoked_at is not None:
            entry.forget()
            return row
        row.revoked_at = moment((clock or SystemClock()).wall_ms())
        row.revoked_by = by[:255]
        row.save(update_fields=["revoked_at", "revoked_by"])
        entry.after = _told(row)
    extra = {"account": row.user.get_username(), "token": row.prefix, "by": by}
    _log.info("token_revoked", extra=extra)
    return row


def _told(row: ApiToken) -> Mapping[str, object]:
    """Return what the audit log keeps of a token: how it begins, and never its secret."""
    return {
        "begins": row.prefix,
        "label": row.label,
        "scopes": row.scopes,
        "expires_at": row.expires_at,
        "revoked_at": row.revoked_at,
    }


def _scope(words: dict[str, Any]) -> dict[str, Any]:
    grant = checked(**words)
    if grant.effect is not policy.Effect.ALLOW:
        raise InvalidArgument(sentence("a scope allows; what it does not name is denied"))
    return {
        "kind": grant.kind.value,
        "actions": sorted(grant.actions),
        "match": grant.match.value,
        "name": grant.name,
        "sources": [str(network) for network in grant.sources],
    }
