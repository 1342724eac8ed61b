"""Changes to accounts and their grants: one transaction each; doors are told after the commit."""

import logging
from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from apps.access import policy, selectors, snapshot
from apps.access.ends import end
from apps.access.models import AccountRole, Grant
from apps.audit.services import recorded
from apps.core.exceptions import ProblemError
from apps.core.phrases import sentence
from apps.engine.errors import InvalidArgument

_log = logging.getLogger("mqweb.access")


def create_account(
    *, name: str, password: str | None, role: policy.Role = policy.Role.NONE, by: str
) -> User:
    """Make an account; without a password it is a program's, which has tokens only.

    Raises InvalidArgument, and ProblemError `conflict` for a name that is taken.
    """
    user = get_user_model()(username=name)
    try:
        user.full_clean(exclude=["password"], validate_unique=False)
    except ValidationError as error:
        raise InvalidArgument("; ".join(error.messages)) from error
    _set_password(user, password)
    with recorded(by=by, act="account.create", kind="account", name=name) as entry:
        snapshot.raise_version()
        if get_user_model().objects.filter(username=name).exists():
            raise ProblemError(
                "conflict", sentence("there is an account %(name)s already", name=repr(name))
            )
        user.is_staff = role is policy.Role.ADMIN
        user.save()
        AccountRole.objects.create(user=user, role=role.value)
        entry.after = _told(selectors.account(name))
    _log.info("account_created", extra={"account": name, "role": role.value, "by": by})
    return user


def change_account(
    *,
    name: str,
    role: policy.Role | None = None,
    is_active: bool | None = None,
    password: str | None = None,
    keeps_session: str | None = None,
    by: str,
) -> User:
    """Change what is given. A new password, or its end, closes the account's sessions and sockets,
    but for the session with the key `keeps_session`.

    Raises ProblemError `not_found`, and `conflict` for a change after which nobody could administer
    any more; InvalidArgument for a bad password.
    """
    is_password_alone = password is not None and role is None and is_active is None
    act = "account.password" if is_password_alone else "account.change"
    with recorded(by=by, act=act, kind="account", name=name) as entry:
        snapshot.raise_version()
        user = selectors.account(name)
        entry.before = _told(user)
        if password is not None:
            _set_password(user, password)
        if is_active is not None:
            user.is_active = is_active
        if role is not None:
            AccountRole.objects.update_or_create(user=user, defaults={"role": role.value})
            user.is_staff = user.is_superuser or role is policy.Role.ADMIN
        user.save()
        _check_somebody_administers()
        now = selectors.account(name)
        ended = 0
        if password is not None or is_active is False:
            ended = end(user.sign_ins.exclude(session_key=keeps_session or ""))
        entry.after = {
            **_told(now),
            "is_sign_in_renewed": password is not None,
            "sign_ins_ended": ended,
        }
    changed = {
        "role": None if role is None else role.value,
        "is_active": is_active,
        "password": password is not None,
    }
    _log.info("account_changed", extra={"account": name, "by": by, **changed})
    return now


def delete_account(*, name: str, by: str) -> None:
    """Remove an account with its grants and tokens. Raises what `change_account` raises."""
    with recorded(by=by, act="account.delete", kind="account", name=name) as entry:
        snapshot.raise_version()
        user = selectors.account(name)
        entry.before = {**_told(user), "grants": [row.english for row in user.grants.all()]}
        user.delete()
        _check_somebody_administers()
    _log.info("account_deleted", extra={"account": name, "by": by})


def add_grant(
    *,
    name: str,
    kind: str,
    actions: list[str],
    match: str,
    resource: str = "",
    effect: str = "allow",
    sources: list[str] | None = None,
    by: str,
) -> Grant:
    """Allow or deny an account something; raise ProblemError `not_found`, InvalidArgument."""
    grant = checked(
        kind=kind, actions=actions, match=match, name=resource, effect=effect, sources=sources
    )
    with recorded(by=by, act="grant.add", kind="account", name=name) as entry:
        snapshot.raise_version()
        row = Grant.objects.create(
            user=selectors.account(name),
            kind=grant.kind.value,
            actions=sorted(grant.actions),
            match=grant.match.value,
            name=grant.name,
            effect=grant.effect.value,
            sources=[str(network) for network in grant.sources],
            created_by=by[:255],
        )
        entry.after = _granted(row)
    _log.info("grant_added", extra={"account": name, "grant": row.english, "by": by})
    return row


def remove_grant(*, number: int, by: str) -> None:
    """Take a grant back; raise ProblemError `not_found`."""
    with recorded(by=by, act="grant.remove", kind="grant", name=str(number)) as entry:
        snapshot.raise_version()
        row = selectors.grant(number)
        text, account = row.english, row.user.get_username()
        entry.kind, entry.name, entry.before = "account", account, _granted(row)
        row.delete()
    _log.info("grant_removed", extra={"account": account, "grant": text, "by": by})


def checked(**words: Any) -> policy.Grant:  # Words of any JSON type: `policy.checked` looks.
    """Return a grant of words; raise InvalidArgument."""
    try:
        return policy.checked(**words)
    except ValueError as error:
        raise InvalidArgument(*error.args) from error


def _told(user: User) -> Mapping[str, object]:
    """Return what the audit log keeps of an account; of its password, whether there is one."""
    return {
        "role": selectors.role_of(user),
        "is_active": user.is_active,
        "is_super": user.is_superuser,
        "signs_in": user.has_usable_password(),
    }


def _granted(row: Grant) -> Mapping[str, object]:
    return {"number": row.pk, "grant": row.english, "sources": row.sources}


def _set_password(user: User, password: str | None) -> None:
    if password is None:
        user.set_unusable_password()
        return
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidArgument("; ".join(error.messages)) from error
    user.set_password(password)


def _check_somebody_administers() -> None:
    if not selectors.somebody_administers():
        raise ProblemError(
            "conflict", sentence("after that no account could sign in and administer")
        )
