"""What doors ask: who a token is, whether they may, and whether they still may. Knows no Django.

A door that has a gate answers nothing without having asked it; one without a gate is open.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apps.access.policy import (
    Action,
    Book,
    Caller,
    Kind,
    Principal,
    Resource,
    Sight,
    Token,
    decide,
    digest_of,
)
from apps.access.policy.book import FOR_EVER_MS
from apps.access.policy.reasons import because
from apps.engine.clock import Clock

_SCHEME = b"bearer "
# Random text of ours is far shorter; what is longer is not even hashed.
_TOKEN_BYTES_MAX = 512
# Making a caller takes longer than deciding; those who come again are kept.
_CALLERS_MAX = 4096

# The answer about what the caller may not know of, and about what is not there.
HIDDEN = "not_found"
LACKS_FACTOR = because("the account has to set up a second factor first")
# To a stream whose caller may go on, and sees more or less from now on: it is to ask again.
CHANGED = "changed"

_log = logging.getLogger("mqweb.access")


class Denied(Exception):
    """A request that is not carried out; `code` is one of the problem codes."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        challenge: str = "",
        by: str = "",
        resource: Resource | None = None,
        reason: str = "",
    ) -> None:
        """Keep what the caller is told; `challenge` is what `WWW-Authenticate` says.

        `by`, `resource` and `reason` are for who keeps refusals: who asked, where that is known,
        for what, and why not where the caller is not told.
        """
        super().__init__(detail)
        self.code = code
        self.challenge = challenge
        self.by = by
        self.resource = resource
        self.reason = reason or detail

    @property
    def is_telling(self) -> bool:
        """Say whether somebody ought to know of it: a missing right, or a token that is wrong."""
        return self.kept_code == "forbidden" or "invalid_token" in self.challenge

    @property
    def kept_code(self) -> str:
        """Return the code to be written down: that of a right that is missing, whatever is told."""
        return "forbidden" if self.code == HIDDEN else self.code


@dataclass(frozen=True, slots=True, kw_only=True)
class Knock:
    """Where a request came from that was denied, as the door knows it; no text is to be trusted."""

    source: str = ""
    agent: str = ""
    path: str = ""


Tell = Callable[[Denied, Knock], None]


def _tell_nobody(_denied: Denied, _knock: Knock) -> None:
    pass


def unauthenticated(detail: str, *, is_wrong: bool) -> Denied:
    """Return the answer to a request without a token, or with one that is not good."""
    error = ', error="invalid_token"' if is_wrong else ""
    return Denied("unauthenticated", detail, challenge=f'Bearer realm="mqweb"{error}')


def refusal_of(
    principal: Principal, actions: Sequence[Action], resource: Resource, source: str, *, by: str
) -> Denied:
    """Return the answer to a principal that may do none of some actions.

    For pages, the API behind them and live views: what may not be known of is answered there as
    what is not there. Who asks to make something is told that it may not, which tells nothing; so
    do the doors of messages, which ask before they look whether a thing is there.
    """
    reason = decide(principal, actions[0], resource, source).reason
    if (
        resource.kind is Kind.CLUSTER
        or Action.CREATE in actions
        or principal.knows_of(resource, source)
    ):
        return Denied("forbidden", reason, by=by, resource=resource)
    detail = f"there is no {resource} that {principal.name} may know of"
    return Denied(HIDDEN, detail, by=by, resource=resource, reason=reason)


class Watch:
    """A stream that is open for as long as its caller may have it."""

    __slots__ = ("end", "rights")

    def __init__(self, rights: "Rights", end: Callable[[Denied], None]) -> None:
        """Call `end` once, when the caller may not any more."""
        self.rights = rights
        self.end = end


class Rights:
    """What one caller may do, asked again whenever it matters; keeps what it was allowed."""

    __slots__ = ("_gate", "_is_factor_demanded", "_needs", "_sight", "caller")

    def __init__(self, gate: "Gate", caller: Caller) -> None:
        """Ask `gate` for `caller`."""
        self._gate = gate
        self._needs: list[tuple[tuple[Action, ...], Resource]] = []
        self._sight: Sight | None = None
        self._is_factor_demanded = False
        self.caller = caller

    def require(self, resource: Resource, *actions: Action) -> None:
        """Raise Denied unless the caller may do one of the actions."""
        self._check(resource, actions)
        self._needs.append((actions, resource))

    def check(self, resource: Resource, *actions: Action) -> None:
        """Raise Denied as `require` does, and keep nothing: for connections that ask for ever."""
        self._check(resource, actions)

    def refusal(self, resource: Resource, *actions: Action) -> Denied:
        """Return the answer to who may do none of the actions, where things are looked at."""
        by = self.caller.label or self.caller.principal.name
        principal = self._gate.principal_of(self.caller)
        return refusal_of(principal, actions, resource, self.caller.source, by=by)

    def sight(self) -> Sight:
        """Return what the caller sees, and have a stream end when that is something else."""
        self._sight = self._sight_now()
        return self._sight

    def demand_factor(self) -> None:
        """Raise Denied, now or later, where an account has to set up a second factor first."""
        self._is_factor_demanded = True
        self._check_factor()

    def watched(self, end: Callable[[Denied], None]) -> Watch:
        """Have `end` called when the caller may not do any more what was required."""
        return self._gate.watch(Watch(self, end))

    def unwatch(self, watch: Watch) -> None:
        """End a watch."""
        self._gate.unwatch(watch)

    def denial(self) -> Denied | None:
        """Return why the caller may not go on; None while it may."""
        try:
            self._gate.principal_of(self.caller)
            if self._is_factor_demanded:
                self._check_factor()
            for actions, resource in self._needs:
                self._check(resource, actions)
            if self._sight is not None and self._sight.key != self._sight_now().key:
                return Denied(CHANGED, "what the caller may see has changed")
        except Denied as denied:
            return denied
        return None

    def _check_factor(self) -> None:
        if self._gate.lacks_factor(self.caller):
            raise Denied("forbidden", LACKS_FACTOR)

    def _sight_now(self) -> Sight:
        return Sight.of(self._gate.principal_of(self.caller), self.caller.source)

    def _check(self, resource: Resource, actions: tuple[Action, ...]) -> None:
        principal = self._gate.principal_of(self.caller)
        source = self.caller.source
        for action in actions:
            decision = decide(principal, action, resource, source)
            if decision.is_allowed:
                return
        by = self.caller.label or principal.name
        raise Denied("forbidden", decision.reason, by=by, resource=resource)


class Gate:
    """The way from a request to a decision. Used from one event loop, but for `book`."""

    def __init__(self, book_of: Callable[[], Book | None], clock: Clock) -> None:
        """Decide by the newest book; None while there has not been any."""
        self._book_of = book_of
        self._tell: Tell = _tell_nobody
        self._clock = clock
        self._watches: set[Watch] = set()
        self._looked_at: Book | None = None
        self._next_end_ms = FOR_EVER_MS
        self._callers: dict[tuple[bytes, str], Caller] = {}
        self.used: dict[int, int] = {}
        """When each token was used last, by its number; for whoever writes it down."""

    def book(self) -> Book:
        """Return the newest book; raise Denied where there is none, or it cannot be had."""
        try:
            book = self._book_of()
        except Exception:  # Never fail open.
            _log.exception("decision_failed")
            raise Denied("forbidden", because("the decision failed, which counts as no")) from None
        if book is None:
            raise Denied(
                "database_unavailable", because("rights are not known yet: no database answered")
            )
        return book

    def rights_of(self, authorization: bytes | None, client: tuple[str, int] | None) -> Rights:
        """Return the rights of who sent an Authorization header; raise Denied."""
        return Rights(self, self.caller_of(digest_in(authorization), client[0] if client else ""))

    def rights_of_signer(
        self,
        access_key: str,
        is_signed_with: Callable[[str], bool],
        client: tuple[str, int] | None,
    ) -> Rights:
        """Return the rights of who signed a request; raise Denied.

        `is_signed_with` says whether a secret key is the one it was signed with.
        """
        for token in self.book().signing.get(access_key, ()):
            if is_signed_with(token.secret_key):
                return Rights(self, self.caller_of(token.digest, client[0] if client else ""))
        raise unauthenticated(
            "no token that is good has this access key and signs so", is_wrong=True
        )

    def caller_of(self, digest: bytes, source: str) -> Caller:
        """Return who has a token, by its digest; raise Denied for one that is not good."""
        token = self._token(digest)
        kept = self._callers.get((digest, source))
        if kept is not None and kept.principal is token.principal:
            return kept
        if len(self._callers) >= _CALLERS_MAX:
            self._callers.clear()
        found = self._callers[digest, source] = Caller(
            principal=token.principal,
            source=source,
            digest=digest,
            account=token.account,
            label=token.label,
            until_ms=FOR_EVER_MS if token.expires_ms is None else token.expires_ms,
        )
        return found

    def _token(self, digest: bytes) -> Token:
        now_ms = self._clock.wall_ms()
        token = self.book().token(digest, now_ms)
        if token is None:
            raise unauthenticated(
                because("the token is unknown, revoked or expired"), is_wrong=True
            )
        if token.number:
            self.used[token.number] = now_ms
        return token

    def principal_of(self, caller: Caller) -> Principal:
        """Return who a caller is by now; raise Denied for one whose token or account is gone."""
        found = self.book().still(caller, self._clock.wall_ms())
        if found is None:
            raise unauthenticated(
                because("the token or account is not good any more"), is_wrong=True
            )
        return found

    def lacks_factor(self, caller: Caller) -> bool:
        """Say whether a session's account has to set up a second factor before anything else.

        Tokens have none: what a program holds is its own factor.
        """
        if caller.digest is not None or caller.account is None:
            return False
        account = self.book().accounts.get(caller.account)
        return account is not None and account.lacks_factor

    def may(self, digest: bytes | None, source: str, action: Action, resource: Resource) -> bool:
        """Say whether who has a token may do something."""
        if digest is None:
            return False
        try:
            principal = self._token(digest).principal
        except Denied:
            return False
        return decide(principal, action, resource, source).is_allowed

    def tell_to(self, tell: Tell) -> None:
        """Have somebody told of denials, on the event loop: who must not wait for anything."""
        self._tell = tell

    def tell(self, denied: Denied, knock: Knock) -> None:
        """Tell of a denial that a door answers, where somebody ought to know of it."""
        if denied.is_telling:
            self._tell(denied, knock)

    # --- streams -------------------------------------------------------------------------------

    def watch(self, watch: Watch) -> Watch:
        """Take a watch; `look` ends it when its time has come."""
        self._watches.add(watch)
        self._next_end_ms = min(self._next_end_ms, watch.rights.caller.until_ms)
        return watch

    def unwatch(self, watch: Watch) -> None:
        """Forget a watch; one that has ended is forgotten already."""
        self._watches.discard(watch)

    def look(self) -> None:
        """End what may not go on. To be called several times a second; mostly there is nothing."""
        try:
            book = self._book_of()
        except Exception:  # Never fail open: every stream is asked again, and refused.
            book = None
        if book is self._looked_at and self._clock.wall_ms() < self._next_end_ms:
            return
        self._looked_at = book
        self._next_end_ms = FOR_EVER_MS
        for watch in list(self._watches):
            denied = watch.rights.denial()
            if denied is None:
                self._next_end_ms = min(self._next_end_ms, watch.rights.caller.until_ms)
            else:
                self._watches.discard(watch)
                watch.end(denied)

    def end_session(self, session: str) -> None:
        """End every stream of a session that was signed out."""
        for watch in list(self._watches):
            if watch.rights.caller.session == session:
                self._watches.discard(watch)
                watch.end(unauthenticated(because("the session was signed out"), is_wrong=True))


def digest_in(authorization: bytes | None) -> bytes:
    """Return the digest of the token in an Authorization header; raise Denied without one."""
    if authorization is None:
        raise unauthenticated(because("give a token: Authorization: Bearer TOKEN"), is_wrong=False)
    token = authorization[len(_SCHEME) :].strip()
    is_bearer = authorization[: len(_SCHEME)].lower() == _SCHEME
    if not is_bearer or not 0 < len(token) <= _TOKEN_BYTES_MAX:
        raise unauthenticated(because("the Authorization header is no Bearer token"), is_wrong=True)
    return digest_of(token)
