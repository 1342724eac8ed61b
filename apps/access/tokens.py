"""Issue and revoke tokens: one transaction each; doors are told after the commit."""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction

from apps.access import policy, selectors, snapshot
from apps.access.accounts import checked
from apps.access.models import LABEL_CHARACTERS_MAX, ApiToken
from apps.core.moments import moment
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
        raise InvalidArgument(f"a label has 1 to {LABEL_CHARACTERS_MAX} printable characters")
    if len(scopes) > _SCOPES_MAX:
        raise InvalidArgument(f"a token has at most {_SCOPES_MAX} scopes")
    now = moment((clock or SystemClock()).wall_ms())
    if expires_at is not None and expires_at <= now:
        raise InvalidArgument("expires_at lies in the past")
    narrowed = [_scope(scope) for scope in scopes]
    text = secrets.token_urlsafe(_SECRET_BYTES)
    secret = f"{_PREFIX}{text}"
    with transaction.atomic():
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
    _log.info("token_issued", extra={"account": name, "token": row.prefix, "by": by})
    return Issued(row=row, secret=secret)


def revoke_token(*, number: int, by: str, clock: Clock | None = None) -> ApiToken:
    """Revoke a token for good; streams that are open with it end within a second.

    To revoke one twice changes nothing. Raises ProblemError `not_found`.
    """
    with transaction.atomic():
        snapshot.raise_version()
        row = selectors.token(number)
        if row.revoked_at is not None:
            return row
        row.revoked_at = moment((clock or SystemClock()).wall_ms())
        row.revoked_by = by[:255]
        row.save(update_fields=["revoked_at", "revoked_by"])
    extra = {"account": row.user.get_username(), "token": row.prefix, "by": by}
    _log.info("token_revoked", extra=extra)
    return row


def _scope(words: dict[str, Any]) -> dict[str, Any]:
    grant = checked(**words)
    if grant.effect is not policy.Effect.ALLOW:
        raise InvalidArgument("a scope allows; what it does not name is denied")
    return {
        "kind": grant.kind.value,
        "actions": sorted(grant.actions),
        "match": grant.match.value,
        "name": grant.name,
        "sources": [str(network) for network in grant.sources],
    }
