"""Signing in, as the audit log keeps it. Knows accounts; asks for no password and no form."""

from django.contrib.auth import get_user_model, login
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from apps.access import asking
from apps.audit.services import recorded, refused

_ACT = "session.sign_in"
_KIND = "account"
_AWAITED = "access_awaits_code"
CODE_WITHIN_MS = 5 * 60_000
# People type their passwords where their names belong, so only names of accounts are kept.
_UNKNOWN = "a name without an account"


def begin_session(request: HttpRequest, user: User, *, factor: str = "") -> None:
    """Begin the session of who gave the right password; one transaction with its entry.

    `factor` is what they gave beside it; empty where the account has no second factor.
    """
    name = user.get_username()
    with recorded(by=name, act=_ACT, kind=_KIND, name=name) as entry:
        # A new session key, so that one that was planted before is worth nothing.
        request.session.flush()
        login(request, user)
        if factor:
            asking.passed_factor(request)
        entry.after = {"last_login": user.last_login, "second_factor": factor or None}


def await_code(request: HttpRequest, user: User, back: str) -> None:
    """Keep, for five minutes, that somebody gave the right password, and is to give a code."""
    request.session.flush()
    request.session[_AWAITED] = {
        "account": user.pk,
        "mark": user.get_session_auth_hash(),
        "until_ms": asking.clock.wall_ms() + CODE_WITHIN_MS,
        "next": back,
    }


def awaited(request: HttpRequest) -> tuple[User, str] | None:
    """Return whose code is awaited, and where they want to go; None where nobody's is.

    A password that was changed meanwhile, and a closed account, are asked for from the beginning.
    """
    kept = request.session.get(_AWAITED)
    if not isinstance(kept, dict) or asking.clock.wall_ms() >= kept["until_ms"]:
        return None
    user = get_user_model().objects.filter(pk=kept["account"], is_active=True).first()
    if user is None or not constant_time_compare(kept["mark"], user.get_session_auth_hash()):
        return None
    return user, kept["next"]


def note_wrong_code(request: HttpRequest, name: str) -> None:
    """Keep that somebody gave a wrong code behind the right password."""
    _note(request, name, "unauthenticated", "the code is wrong")


def note_wrong_password(request: HttpRequest, name: str) -> None:
    """Keep that somebody gave a wrong name or password; many of a minute as a count."""
    _note(request, name, "unauthenticated", "name or password is wrong")


def note_too_often(request: HttpRequest, name: str) -> None:
    """Keep that somebody was not even asked, after too many wrong passwords."""
    _note(request, name, "too_many_requests", "too many wrong passwords")


def _note(request: HttpRequest, name: str, code: str, detail: str) -> None:
    is_known = "\0" not in name and get_user_model().objects.filter(username=name).exists()
    refused(
        by=f"anonymous at {request.META.get('REMOTE_ADDR') or 'an unknown address'}",
        act=_ACT,
        kind=_KIND,
        name=name if is_known else _UNKNOWN,
        code=code,
        detail=detail,
    )
