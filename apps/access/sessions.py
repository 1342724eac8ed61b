"""Sessions of accounts: who is signed in where, and their ends. Knows rows and Django's sessions.

What has ended here has ended everywhere, its sockets too.
"""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.access import asking, selectors
from apps.access.accounts import change_account
from apps.access.ends import end
from apps.access.models import AccountSession
from apps.audit.services import recorded
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.phrases import sentence

SESSIONS_SHOWN = 100
_ROW_MAX = 2**63 - 1


def of_account(user: User) -> list[AccountSession]:
    """Return the sessions of an account that are good, the last seen first; at most 100."""
    return list(_good(user).order_by("-seen_at", "-pk")[:SESSIONS_SHOWN])


def end_one(*, user: User, number: int, by: str) -> AccountSession:
    """End a session of an account; raise ProblemError `not_found`, also for one of another's."""
    name = user.get_username()
    with recorded(by=by, act="session.end", kind="account", name=name) as entry:
        row = _good(user).filter(pk=min(number, _ROW_MAX)).first()
        if row is None:
            raise ProblemError(
                "not_found", sentence("there is no session %(number)s", number=number)
            )
        entry.before = _told(row)
        end([row])
    return row


def end_all(*, user: User, by: str, but: str | None = None) -> int:
    """End the sessions of an account, all or all but the one with the key `but`; count them."""
    name = user.get_username()
    with recorded(by=by, act="session.end_all", kind="account", name=name) as entry:
        rows = [row for row in AccountSession.objects.filter(user=user) if row.session_key != but]
        entry.before = {"open": [_told(row) for row in rows[:SESSIONS_SHOWN]]}
        entry.after = {"ended": len(rows), "kept_this_one": but is not None}
        end(rows)
    return len(rows)


def change_own_password(*, request: HttpRequest, user: User, password: str, by: str) -> None:
    """Set one's own password; this session goes on under a new key, and all others end.

    Raises InvalidArgument for a password that is too weak.
    """
    key = request.session.session_key or ""
    changed = change_account(name=user.get_username(), password=password, keeps_session=key, by=by)
    update_session_auth_hash(request, changed)
    AccountSession.objects.filter(session_key=key).update(session_key=request.session.session_key)


def account_of(request: HttpRequest) -> User:
    """Return the account of who is signed in; raise ProblemError `not_found` without one."""
    user = request.user
    if not user.is_authenticated:
        raise ProblemError("not_found", sentence("nobody is signed in"))
    return selectors.account(user.get_username())


def _good(user: User) -> QuerySet[AccountSession]:
    now, times = moment(asking.clock.wall_ms()), settings.MQWEB.session
    live = Session.objects.filter(expire_date__gt=now).values("session_key")
    return AccountSession.objects.filter(
        user=user,
        session_key__in=live,
        begun_at__gt=now - timedelta(milliseconds=times.age_ms_max),
        seen_at__gt=now - timedelta(milliseconds=times.idle_ms_max),
    )


def _told(row: AccountSession) -> dict[str, object]:
    return {
        "number": row.pk,
        "begun_at": row.begun_at,
        "seen_at": row.seen_at,
        "address": row.address,
        "agent": row.agent,
    }
