"""Signing in, as the audit log keeps it. Knows accounts; asks for no password and no form."""

from django.contrib.auth import get_user_model, login
from django.contrib.auth.models import User
from django.http import HttpRequest

from apps.audit.services import recorded, refused

_ACT = "session.sign_in"
_KIND = "account"
# People type their passwords where their names belong, so only names of accounts are kept.
_UNKNOWN = "a name without an account"


def begin_session(request: HttpRequest, user: User) -> None:
    """Begin the session of who gave the right password; one transaction with its entry."""
    name = user.get_username()
    with recorded(by=name, act=_ACT, kind=_KIND, name=name) as entry:
        # A new session key, so that one that was planted before is worth nothing.
        request.session.flush()
        login(request, user)
        entry.after = {"last_login": user.last_login}


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
