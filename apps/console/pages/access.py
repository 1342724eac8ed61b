"""The pages of access: accounts, what each may, and its tokens. Knows services and selectors.

A token's secret is on the page that answers its making, and on no other.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import quote

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from apps.access import accounts, asking, factors, policy, selectors, sessions, tokens
from apps.access.models import ApiToken, Grant
from apps.console.pages.common import Told, console_action
from apps.console.pages.sessionrows import session_row
from apps.console.refusals import sentence_of
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.pagination import rfc3339_or_none
from apps.core.phrases import sentence
from apps.engine.errors import EngineError, InvalidArgument

ACCOUNTS_SHOWN = 100
LINES_SHOWN = 100
_DAYS_MAX = 3_660
_LIST = "/access"


@require_safe
@never_cache
def access(request: HttpRequest) -> HttpResponse:
    """Show accounts by name and the newest tokens, with the form for a new account."""
    after = request.GET.get("after", "").replace("\0", "")
    found = selectors.accounts(after=after, accounts_max=ACCOUNTS_SHOWN + 1)
    rows = found[:ACCOUNTS_SHOWN]
    newest = selectors.tokens(tokens_max=LINES_SHOWN)
    values = {
        "lines_shown": LINES_SHOWN,
        "accounts": [_account_row(user) for user in rows],
        "after": rows[-1].get_username() if len(found) > ACCOUNTS_SHOWN else None,
        "is_first": not after,
        "tokens": [_token_row(row) for row in newest],
        "roles": list(policy.Role),
    }
    return render(request, "console/access/access.html", values)


@require_safe
@never_cache
def account(request: HttpRequest, *, name: str) -> HttpResponse:
    """Show one account: its role, its grants, its tokens, and what can be changed."""
    try:
        user = selectors.account(name)
    except ProblemError as refusal:
        raise Http404 from refusal
    key = request.session.session_key
    values = {
        "account": {
            "name": name,
            "role": selectors.role_of(user),
            "is_super": user.is_superuser,
            "is_active": user.is_active,
            "has_password": user.has_usable_password(),
            "last_sign_in": rfc3339_or_none(user.last_login),
        },
        "grants": [_grant_row(row) for row in selectors.grants(name=name, grants_max=LINES_SHOWN)],
        "tokens": [_token_row(row) for row in selectors.tokens(name=name, tokens_max=LINES_SHOWN)],
        "sessions": [session_row(row, key) for row in sessions.of_account(user)],
        "factor": factors.is_on(user),
        "is_own": user.pk == request.user.pk,
        "lines_shown": LINES_SHOWN,
        "roles": list(policy.Role),
        "kinds": [
            {"kind": kind, "actions": sorted(policy.ACTIONS_OF[kind])} for kind in policy.Kind
        ],
        "actions": list(policy.Action),
        "matches": list(policy.Match),
        "effects": list(policy.Effect),
    }
    return render(request, "console/access/account.html", values)


@console_action
@sensitive_post_parameters("password")
def create_account(request: HttpRequest) -> Told:
    """Make an account; without a password it is a program's."""
    name = request.POST.get("name", "").strip()

    def create() -> str:
        accounts.create_account(
            name=name,
            password=request.POST.get("password") or None,
            role=_role(request),
            by=actor_of(request),
        )
        return gettext("Account %(name)s is there.") % {"name": name}

    return _done(create, back=_LIST, good=_address(name))


@console_action
def change(request: HttpRequest, *, name: str) -> Told:
    """Give an account another role, or open or close it."""

    def do() -> str:
        accounts.change_account(
            name=name,
            role=_role(request),
            is_active=request.POST.get("is_active") == "on",
            by=actor_of(request),
        )
        return gettext("Account %(name)s is changed.") % {"name": name}

    return _done(do, back=_address(name))


@console_action
@sensitive_post_parameters("password")
def password(request: HttpRequest, *, name: str) -> Told:
    """Set an account's password, which ends its sessions."""

    def do() -> str:
        accounts.change_account(
            name=name, password=request.POST.get("password", ""), by=actor_of(request)
        )
        return gettext("The password is set; sessions of %(name)s have ended.") % {"name": name}

    return _done(do, back=_address(name))


@console_action
def end_sessions(request: HttpRequest, *, name: str) -> Told:
    """End all sessions of an account; of one's own all but this one."""

    def do() -> str:
        user = selectors.account(name)
        key = request.session.session_key if user.pk == request.user.pk else None
        count = sessions.end_all(user=user, by=actor_of(request), but=key)
        text = ngettext("%(count)d session has ended.", "%(count)d sessions have ended.", count)
        return text % {"count": count}

    return _done(do, back=_address(name))


@console_action
def second_factor_off(request: HttpRequest, *, name: str) -> Told:
    """Turn the second factor of somebody else off, who has lost it."""

    def do() -> str:
        user, by = selectors.account(name), actor_of(request)
        factors.turn_off_another(user=user, asking_id=request.user.pk, by=by)
        return gettext("%(name)s signs in with a password alone.") % {"name": name}

    return _done(do, back=_address(name))


@console_action
def delete(request: HttpRequest, *, name: str) -> Told:
    """Remove an account, once its name was typed."""
    if request.POST.get("typed") != name:
        text = gettext("Nothing is removed: the name was not typed.")
        return Told(text=text, back=_address(name), is_good=False)

    def do() -> str:
        accounts.delete_account(name=name, by=actor_of(request))
        return gettext("Account %(name)s is removed.") % {"name": name}

    return _done(do, back=_address(name), good=_LIST)


@console_action
def add_grant(request: HttpRequest, *, name: str) -> Told:
    """Allow or deny an account something."""

    def do() -> str:
        row = accounts.add_grant(
            name=name,
            kind=request.POST.get("kind", ""),
            actions=request.POST.getlist("actions"),
            match=request.POST.get("match", ""),
            resource=request.POST.get("resource", "").strip(),
            effect=request.POST.get("effect", ""),
            sources=request.POST.get("sources", "").split(),
            by=actor_of(request),
        )
        return gettext("It holds from now on: %(grant)s.") % {"grant": row}

    return _done(do, back=_address(name))


@console_action
def remove_grant(request: HttpRequest, *, number: int) -> Told:
    """Take a grant back."""
    back = _back(request)

    def do() -> str:
        accounts.remove_grant(number=number, by=actor_of(request))
        return gettext("The grant is taken back.")

    return _done(do, back=back)


@console_action
def revoke_token(request: HttpRequest, *, number: int) -> Told:
    """Revoke a token for good."""

    def do() -> str:
        row = tokens.revoke_token(number=number, by=actor_of(request))
        return gettext("Token %(prefix)s… is revoked; what was open with it ends now.") % {
            "prefix": row.prefix
        }

    return _done(do, back=_back(request))


@require_POST
@never_cache
def issue_token(request: HttpRequest, *, name: str) -> HttpResponse:
    """Issue a token, and show its secret in this answer only."""
    values: dict[str, object] = {"account": {"name": name}}
    status = 201
    try:
        issued = tokens.issue_token(
            name=name,
            label=request.POST.get("label", "").strip(),
            scopes=_scopes(request),
            expires_at=_expires_at(request),
            by=actor_of(request),
        )
        values |= {"secret": issued.secret, "keys": issued.keys, "token": _token_row(issued.row)}
    except (EngineError, ProblemError) as refusal:
        values |= {"trouble": sentence_of(refusal)}
        status = 400
    return render(request, "console/access/token.html", values, status=status)


def _scopes(request: HttpRequest) -> list[dict[str, object]]:
    """Return the one scope the form has room for; none where no action is ticked."""
    actions = request.POST.getlist("actions")
    if not actions:
        return []
    return [
        {
            "kind": request.POST.get("kind", ""),
            "actions": actions,
            "match": request.POST.get("match", ""),
            "name": request.POST.get("resource", "").strip(),
        }
    ]


def _expires_at(request: HttpRequest) -> datetime | None:
    text = request.POST.get("days", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= _DAYS_MAX):
        text = sentence("a token lives 1 to %(days)s days, or for ever", days=_DAYS_MAX)
        raise InvalidArgument(text)
    return moment(asking.clock.wall_ms()) + timedelta(days=int(text))


def _role(request: HttpRequest) -> policy.Role:
    try:
        return policy.Role(request.POST.get("role", ""))
    except ValueError:
        raise InvalidArgument(sentence("there is no such role")) from None


def _done(do: Callable[[], str], *, back: str, good: str | None = None) -> Told:
    try:
        return Told(text=do(), back=good or back)
    except (EngineError, ProblemError) as refusal:
        return Told(text=sentence_of(refusal), back=back, is_good=False)


def _address(name: str) -> str:
    return f"/access/accounts/{quote(name, safe='')}/"


def _back(request: HttpRequest) -> str:
    name = request.POST.get("account", "")
    return _address(name) if name else _LIST


def _account_row(user: User) -> dict[str, object]:
    return {
        "name": user.get_username(),
        "role": selectors.role_of(user),
        "is_super": user.is_superuser,
        "is_active": user.is_active,
        "has_password": user.has_usable_password(),
        "grants": user.grant_count,  # type: ignore[attr-defined]
        "tokens": user.token_count,  # type: ignore[attr-defined]
        "last_sign_in": rfc3339_or_none(user.last_login),
    }


def _grant_row(row: Grant) -> dict[str, object]:
    return {"number": row.pk, "row": row, "sources": row.sources, "by": row.created_by}


def _token_row(row: ApiToken) -> dict[str, object]:
    now = moment(asking.clock.wall_ms())
    is_over = row.expires_at is not None and row.expires_at <= now
    return {
        "number": row.pk,
        "account": row.user.get_username(),
        "label": row.label,
        "prefix": row.prefix,
        "state": "revoked" if row.revoked_at else "expired" if is_over else "good",
        "is_revoked": row.revoked_at is not None,
        "scopes": [str(Grant(**{**scope, "effect": "allow"})) for scope in row.scopes],
        "expires_at": rfc3339_or_none(row.expires_at),
        "last_used_at": rfc3339_or_none(row.last_used_at),
    }
