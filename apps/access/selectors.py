"""Accounts, grants and tokens as read. Lists are ordered and limited; none asks once a row."""

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.contrib.auth.models import User
from django.db.models import Count, Q, QuerySet

from apps.access.models import AccountRole, ApiToken, Grant, Role
from apps.core.exceptions import ProblemError
from apps.core.phrases import sentence

_ROW_MAX = 2**63 - 1


def account(name: str) -> User:
    """Return an account; raise ProblemError `not_found`."""
    found = get_user_model().objects.select_related("access_role").filter(username=name).first()
    if found is None:
        raise ProblemError("not_found", sentence("there is no account %(name)s", name=repr(name)))
    return found


def accounts(*, after: str = "", accounts_max: int) -> list[User]:
    """Return accounts by name, those after `after`, with role and numbers of grants and tokens."""
    rows: QuerySet[User] = (
        get_user_model()
        .objects.select_related("access_role")
        .annotate(
            grant_count=Count("grants", distinct=True),
            token_count=Count("tokens", filter=Q(tokens__revoked_at=None), distinct=True),
        )
        .filter(username__gt=after)
        .order_by("username")
    )
    return list(rows[:accounts_max])


def role_of(user: User) -> str:
    """Return an account's role."""
    try:
        role: str = user.access_role.role
    except AccountRole.DoesNotExist:
        return Role.NONE.value
    return role


def may_sign_in(user: User) -> bool:
    """Say whether an account has a password and is active."""
    return user.is_active and user.has_usable_password()


def somebody_administers() -> bool:
    """Say whether an account can sign in that may administer."""
    return (
        get_user_model()
        .objects.filter(Q(is_superuser=True) | Q(access_role__role=Role.ADMIN))
        .filter(is_active=True)
        .exclude(password__startswith=UNUSABLE_PASSWORD_PREFIX)
        .exists()
    )


def grants(*, name: str | None = None, after: int = 0, grants_max: int) -> list[Grant]:
    """Return grants by number, those after `after`, of one account or all."""
    rows = Grant.objects.select_related("user").filter(pk__gt=min(after, _ROW_MAX))
    if name is not None:
        rows = rows.filter(user__username=name)
    return list(rows.order_by("pk")[:grants_max])


def grant(number: int) -> Grant:
    """Return a grant; raise ProblemError `not_found`."""
    found = Grant.objects.select_related("user").filter(pk=min(number, _ROW_MAX)).first()
    if found is None:
        raise ProblemError("not_found", sentence("there is no grant %(number)s", number=number))
    return found


def tokens(
    *, name: str | None = None, before: int | None = None, tokens_max: int
) -> list[ApiToken]:
    """Return tokens, the newest first, revoked ones among them, of one account or all."""
    rows = ApiToken.objects.select_related("user").order_by("-pk")
    if name is not None:
        rows = rows.filter(user__username=name)
    if before is not None:
        rows = rows.filter(pk__lt=min(before, _ROW_MAX))
    return list(rows[:tokens_max])


def token(number: int) -> ApiToken:
    """Return a token; raise ProblemError `not_found`."""
    found = ApiToken.objects.select_related("user").filter(pk=min(number, _ROW_MAX)).first()
    if found is None:
        raise ProblemError("not_found", sentence("there is no token %(number)s", number=number))
    return found


def token_by_prefix(prefix: str) -> ApiToken:
    """Return the token whose secret begins so, as lists show it; raise ProblemError."""
    found = ApiToken.objects.select_related("user").filter(prefix=prefix.rstrip("…")).first()
    if found is None:
        raise ProblemError(
            "not_found", sentence("no token begins with %(prefix)s", prefix=repr(prefix[:20]))
        )
    return found
