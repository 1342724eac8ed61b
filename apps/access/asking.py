"""What Django's side asks about a request: who it is, and whether they may. Knows sessions.

Every page, view and template asks here, and here asks the same gate as the other doors.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest

from apps.access import snapshot
from apps.access.gate import HIDDEN, Denied, Gate, Rights, Tell, refusal_of, unauthenticated
from apps.access.models import (
    ADDRESS_CHARACTERS_MAX,
    AGENT_CHARACTERS_MAX,
    AccountSession,
)
from apps.access.policy import CLUSTER, Action, Caller, Decision, Kind, Resource, Sight, decide
from apps.access.policy.reasons import because
from apps.access.policy.sight import ALL
from apps.core.moments import moment
from apps.engine.clock import SystemClock

_NOTE_EVERY_MS = 60_000
_BEGUN, _SEEN, _FACTOR = "access_begun_ms", "access_seen_ms", "access_factor"

clock = SystemClock()
gate = Gate(snapshot.current, clock)
"""The one gate of this process."""
_loop: asyncio.AbstractEventLoop | None = None


class Told(PermissionDenied):
    """A refusal that those who keep refusals were told of already."""


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
            return Decision(True, because("access is off"))
        if self.rights is None:
            return decide(None, action, resource)
        caller = self.rights.caller
        return decide(caller.principal, action, resource, caller.source)

    def sight(self) -> Sight:
        """Return what whoever asks may see; all of it where access is off."""
        if not is_on():
            return ALL
        if self.rights is None:
            return Sight(None)
        caller = self.rights.caller
        return Sight.of(caller.principal, caller.source)

    def sees_throughout(self, *, peeks: bool) -> Decision:
        """Say whether whoever asks sees all there is; with `peeks`, all that messages hold, too."""
        administers = self.may(Action.ADMINISTER, CLUSTER)
        if administers.is_allowed or self.rights is None:
            return administers
        sight, name = self.sight(), self.rights.caller.principal.name
        if not sight.sees_everything:
            text = because("%(name)s does not see every topic and every group", name=name)
            return Decision(False, text)
        if peeks and not sight.is_whole:
            text = because("%(name)s may not read the messages of every topic and group", name=name)
            return Decision(False, text)
        return Decision(True, "sees all of it")

    def may_one(self, actions: Sequence[Action], resource: Resource) -> Decision:
        """Say whether whoever asks may do one of some things; if not, why not the first."""
        decisions = [self.may(action, resource) for action in actions]
        return next((one for one in decisions if one.is_allowed), decisions[0])

    def may_one_somewhere(self, actions: Sequence[Action], kind: Kind) -> Decision:
        """Say whether there may be a name to do one of some things with; if not, why not."""
        decisions = [self.may_somewhere(action, kind) for action in actions]
        return next((one for one in decisions if one.is_allowed), decisions[0])

    def may_one_on_each(
        self, actions: Sequence[Action], kind: Kind, names: Sequence[str]
    ) -> Decision:
        """Say whether whoever asks may do one of some things with each name, or why not with one.

        Of no name at all it is asked about the whole installation.
        """
        resources = [Resource(kind, name) for name in names] or [CLUSTER]
        decisions = [self.may_one(actions, resource) for resource in resources]
        return next((one for one in decisions if not one.is_allowed), decisions[0])

    def may_somewhere(self, action: Action, kind: Kind) -> Decision:
        """Say whether there may be a name that whoever asks may do something with."""
        if not is_on():
            return Decision(True, because("access is off"))
        if self.rights is None:
            return Decision(False, because("nobody is signed in"))
        return self.rights.caller.principal.may_somewhere(action, kind)


_NOBODY = Access()


def access_of(request: HttpRequest) -> Access:
    """Return what the middleware found out; nobody where it never ran."""
    found = getattr(request, "access", None)
    return found if isinstance(found, Access) else _NOBODY


def require(request: HttpRequest, action: Action, resource: Resource) -> None:
    """Raise PermissionDenied unless whoever asks may, for what only a body or a row names.

    Raises Http404 for what they may not even know of.
    """
    if not permitted(request, action, resource):
        raise Http404(f"there is no {resource} that may be known of")


def require_within(request: HttpRequest, action: Action, resource: Resource) -> None:
    """Raise PermissionDenied unless whoever asks may, from a page that is in a transaction.

    What is told there would go with the transaction: the middleware tells of it afterwards.
    """
    access = access_of(request)
    decision = access.may(action, resource)
    if not decision.is_allowed:
        denied = None if access.rights is None else access.rights.refusal(resource, action)
        raise PermissionDenied(decision.reason) from denied


def permitted(request: HttpRequest, action: Action, resource: Resource) -> bool:
    """Say whether whoever asks may do something with what a number or an id led to.

    False is for what they may not even know of: it is to be answered as a number that none has.
    Raises PermissionDenied for what they may know of.
    """
    access = access_of(request)
    decision = access.may(action, resource)
    if decision.is_allowed:
        return True
    if access.rights is None:
        raise PermissionDenied(decision.reason)
    caller = access.rights.caller
    denied = refusal_of(caller.principal, (action,), resource, caller.source, by="")
    _told_to(request, denied)
    if denied.code == HIDDEN:
        return False
    raise Told(decision.reason)


def tell_of_refusal(request: HttpRequest, refusal: PermissionDenied) -> None:
    """Tell those who keep refusals of one by a view; of one they were told of only once."""
    access = access_of(request)
    if isinstance(refusal, Told) or access.rights is None:
        return
    denied = refusal.__cause__
    if not isinstance(denied, Denied):
        caller = access.rights.caller
        reason = str(refusal) or because("the caller may not do this")
        denied = Denied("forbidden", reason, by=caller.label or caller.principal.name)
    _told_to(request, denied)


def passed_factor(request: HttpRequest) -> None:
    """Take note in the session that a code was asked for, and was good."""
    request.session[_FACTOR] = True


def _flush(request: HttpRequest) -> None:
    key = request.session.session_key
    request.session.flush()
    if key:
        AccountSession.objects.filter(session_key=key).delete()


def _note(request: HttpRequest, *, begun_ms: int, seen_ms: int) -> None:
    """Write down, once a minute, where a session is seen."""
    if not request.session.session_key:
        return
    agent = request.META.get("HTTP_USER_AGENT", "").replace("\0", "")
    seen = {
        "user_id": request.user.pk,
        "seen_at": moment(seen_ms),
        "address": request.META.get("REMOTE_ADDR", "")[:ADDRESS_CHARACTERS_MAX],
        "agent": agent[:AGENT_CHARACTERS_MAX],
    }
    AccountSession.objects.update_or_create(
        session_key=request.session.session_key,
        defaults=seen,
        create_defaults={**seen, "begun_at": moment(begun_ms)},
    )


def sight_of(request: HttpRequest) -> Sight:
    """Return what whoever asks may see."""
    return access_of(request).sight()


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
        raise unauthenticated(because("sign in, or give a token"), is_wrong=False)
    now_ms = clock.wall_ms()
    begun_ms = int(request.session.get(_BEGUN, now_ms))
    seen_ms = int(request.session.get(_SEEN, now_ms))
    times = settings.MQWEB.session
    until_ms = begun_ms + times.age_ms_max
    if now_ms >= until_ms or now_ms - seen_ms >= times.idle_ms_max:
        _flush(request)
        raise unauthenticated(because("the session has ended: sign in again"), is_wrong=True)
    if _BEGUN not in request.session:
        request.session[_BEGUN] = now_ms
    if now_ms - seen_ms >= _NOTE_EVERY_MS or _SEEN not in request.session:
        request.session[_SEEN] = now_ms
        _note(request, begun_ms=begun_ms, seen_ms=now_ms)
    mark = user.get_session_auth_hash()
    account = gate.book().accounts.get(user.pk)
    if account is None or account.mark != mark:
        # The session was just found good for the password of now, so the book is what is old.
        snapshot.publish()
        account = gate.book().accounts.get(user.pk)
    if account is None:
        raise unauthenticated(because("the account is not good any more"), is_wrong=True)
    if account.has_factor and _FACTOR not in request.session:
        # Whatever began this session did not ask for a code.
        _flush(request)
        raise unauthenticated(because("sign in again, with a code"), is_wrong=True)
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
    "passed_factor",
    "permitted",
    "require",
    "shown_to",
    "sight_of",
    "streams_on",
    "tell_of_denials",
]
