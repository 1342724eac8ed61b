"""What Django's side asks about a request: who it is, and whether they may. Knows sessions.

Every page, view and template asks here, and here asks the same gate as the other doors.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from apps.access import snapshot
from apps.access.gate import Denied, Gate, Rights, Tell, unauthenticated
from apps.access.policy import Action, Caller, Decision, Kind, Resource, decide
from apps.engine.clock import SystemClock

# Of a session: since its start, and without a request.
SESSION_MS_MAX = 12 * 3_600_000
SESSION_IDLE_MS_MAX = 2 * 3_600_000
_NOTE_EVERY_MS = 60_000
_BEGUN, _SEEN = "access_begun_ms", "access_seen_ms"

clock = SystemClock()
gate = Gate(snapshot.current, clock)
"""The one gate of this process."""
_loop: asyncio.AbstractEventLoop | None = None


def _to_nobody(_request: HttpRequest, _denied: Denied) -> None:
    pass


_told_to: Callable[[HttpRequest, Denied], None] = _to_nobody


def tell_of_denials(*, at_doors: Tell, of_requests: Callable[[HttpRequest, Denied], None]) -> None:
    """Have those told of denials who keep them; they need more of Django than is loaded here."""
    global _told_to
    gate.tell_to(at_doors)
    _told_to = of_requests


def is_on() -> bool:
    """Say whether anybody is asked who they are."""
    return bool(settings.MQWEB.auth != "off")


@dataclass(frozen=True, slots=True)
class Access:
    """Who a request comes from; without rights nobody is known."""

    rights: Rights | None = None

    def may(self, action: Action, resource: Resource) -> Decision:
        """Say whether whoever asks may do something, and why not."""
        if not is_on():
            return Decision(True, "access is off")
        if self.rights is None:
            return decide(None, action, resource)
        caller = self.rights.caller
        return decide(caller.principal, action, resource, caller.source)

    def may_one(self, actions: Sequence[Action], resource: Resource) -> Decision:
        """Say whether whoever asks may do one of some things; if not, why not the first."""
        decisions = [self.may(action, resource) for action in actions]
        return next((one for one in decisions if one.is_allowed), decisions[0])

    def may_somewhere(self, action: Action, kind: Kind) -> Decision:
        """Say whether there may be a name that whoever asks may do something with."""
        if not is_on():
            return Decision(True, "access is off")
        if self.rights is None:
            return Decision(False, "nobody is signed in")
        return self.rights.caller.principal.may_somewhere(action, kind)


_NOBODY = Access()


def access_of(request: HttpRequest) -> Access:
    """Return what the middleware found out; nobody where it never ran."""
    found = getattr(request, "access", None)
    return found if isinstance(found, Access) else _NOBODY


def require(request: HttpRequest, action: Action, resource: Resource) -> None:
    """Raise PermissionDenied unless whoever asks may, for what only a body names."""
    decision = access_of(request).may(action, resource)
    if not decision.is_allowed:
        _told_to(request, Denied("forbidden", decision.reason, resource=resource))
        raise PermissionDenied(decision.reason)


def shown_to(request: HttpRequest, kind: Kind) -> Callable[[str], bool]:
    """Return what says whether lists show a topic or group, by its name, to whoever asks."""
    access = access_of(request)
    return lambda name: access.may(Action.LIST, Resource(kind, name)).is_allowed


def end_session(session: str) -> None:
    """Have the sockets of a session that was signed out end, on the loop they are on."""
    if _loop is not None:
        _loop.call_soon_threadsafe(gate.end_session, session)


def streams_on(loop: asyncio.AbstractEventLoop | None) -> None:
    """Take note of the loop that this process's streams are on."""
    global _loop
    _loop = loop


def by_token(request: HttpRequest) -> Rights:
    """Return the rights of a request with an Authorization header; raise Denied."""
    authorization = request.META["HTTP_AUTHORIZATION"].encode("latin-1", "replace")
    return gate.rights_of(authorization, (request.META.get("REMOTE_ADDR", ""), 0))


def by_session(request: HttpRequest) -> Rights:
    """Return the rights of who is signed in; raise Denied where nobody is, or not any more.

    Reads the session and its account, hence queries. Ends a session whose time is over.
    """
    user = request.user
    if not user.is_authenticated:
        raise unauthenticated("sign in, or give a token", is_wrong=False)
    now_ms = clock.wall_ms()
    begun_ms = int(request.session.get(_BEGUN, now_ms))
    seen_ms = int(request.session.get(_SEEN, now_ms))
    until_ms = begun_ms + SESSION_MS_MAX
    if now_ms >= until_ms or now_ms - seen_ms >= SESSION_IDLE_MS_MAX:
        request.session.flush()
        raise unauthenticated("the session has ended: sign in again", is_wrong=True)
    if _BEGUN not in request.session:
        request.session[_BEGUN] = now_ms
    if now_ms - seen_ms >= _NOTE_EVERY_MS or _SEEN not in request.session:
        request.session[_SEEN] = now_ms
    mark = user.get_session_auth_hash()
    account = gate.book().accounts.get(user.pk)
    if account is None or account.mark != mark:
        # The session was just found good for the password of now, so the book is what is old.
        snapshot.publish()
        account = gate.book().accounts.get(user.pk)
    if account is None:
        raise unauthenticated("the account is not good any more", is_wrong=True)
    caller = Caller(
        principal=account.principal,
        source=request.META.get("REMOTE_ADDR", ""),
        account=user.pk,
        mark=mark,
        session=request.session.session_key or "",
        label=user.get_username(),
        until_ms=until_ms,
    )
    rights = Rights(gate, caller)
    if (denied := rights.denial()) is not None:
        raise denied
    return rights


__all__ = [
    "Access",
    "Denied",
    "access_of",
    "by_session",
    "by_token",
    "clock",
    "end_session",
    "gate",
    "is_on",
    "require",
    "shown_to",
    "streams_on",
    "tell_of_denials",
]
