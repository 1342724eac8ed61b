"""Everything that decisions are made from, at one moment. Immutable; knows no database.

Tokens are found by their SHA-256 digest: the text of one is kept nowhere.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apps.access.policy.deciding import Principal

FOR_EVER_MS = 1 << 62


def digest_of(token: bytes) -> bytes:
    """Return what is kept of a token."""
    return hashlib.sha256(token).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token that was not revoked; `principal` has its scopes applied. Times are wall times."""

    number: int
    digest: bytes
    principal: Principal
    label: str = ""
    account: int | None = None
    expires_ms: int | None = None
    access_key: str = ""
    """What a client that signs calls it; empty for one that cannot be signed with."""
    secret_key: str = field(default="", repr=False)

    def is_good(self, now_ms: int) -> bool:
        """Say whether its time is not over."""
        return self.expires_ms is None or now_ms < self.expires_ms


def by_access_key(tokens: Iterable[Token]) -> dict[str, tuple[Token, ...]]:
    """Return those that can be signed with, by access key."""
    found: dict[str, tuple[Token, ...]] = {}
    for token in tokens:
        if token.access_key:
            found[token.access_key] = (*found.get(token.access_key, ()), token)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An active account that signs in; `mark` changes with its password."""

    principal: Principal
    mark: str = ""
    has_factor: bool = False
    """Whether it signs in with a code as well."""
    lacks_factor: bool = False
    """Whether it has to, and may do nothing before it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who a request comes from, and how that is known: by a token or by a session's account.

    Neither is good from the wall time `until_ms` on.
    """

    principal: Principal
    source: str = ""
    digest: bytes | None = None
    account: int | None = None
    mark: str = ""
    session: str = ""
    label: str = ""
    until_ms: int = FOR_EVER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """All accounts and tokens at one version."""

    version: int
    accounts: Mapping[int, Account] = field(default_factory=dict)
    tokens: Mapping[bytes, Token] = field(default_factory=dict)
    signing: Mapping[str, tuple[Token, ...]] = field(default_factory=dict)
    """Tokens by access key, which two may share."""

    def token(self, digest: bytes, now_ms: int) -> Token | None:
        """Return the token of a digest; None for one that is unknown, revoked or expired."""
        found = self.tokens.get(digest)
        if found is None or not found.is_good(now_ms):
            return None
        return found if hmac.compare_digest(found.digest, digest) else None

    def still(self, caller: Caller, now_ms: int) -> Principal | None:
        """Return who a caller is now; None for one whose token or account is gone."""
        if caller.digest is not None:
            token = self.token(caller.digest, now_ms)
            return None if token is None else token.principal
        if caller.account is None or now_ms >= caller.until_ms:
            return None
        account = self.accounts.get(caller.account)
        if account is None or not hmac.compare_digest(account.mark, caller.mark):
            return None
        return account.principal
