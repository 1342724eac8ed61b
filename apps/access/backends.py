"""Passwords, and Django's permissions where a page asks for one. Knows the cluster's right.

Models of the admin ask the table of rights instead, which knows from where a request comes.
"""

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Model

from apps.access import asking
from apps.access.gate import Denied
from apps.access.policy import CLUSTER, Action, decide


class DecidedBackend(ModelBackend):
    """Checks passwords as Django does; permissions are of those who may administer."""

    def has_perm(self, user_obj: User | AnonymousUser, perm: str, obj: Model | None = None) -> bool:
        """Say whether an account has a permission; models of the admin decide for themselves."""
        if not asking.is_on():
            return super().has_perm(user_obj, perm, obj)
        return _administers(user_obj)

    def has_module_perms(self, user_obj: Any, app_label: str) -> bool:
        """Say whether an account sees an application in the admin."""
        if not asking.is_on():
            return super().has_module_perms(user_obj, app_label)
        return _administers(user_obj)


def _administers(user: Any) -> bool:  # Django's users, anonymous ones among them.
    if not user.is_active or user.pk is None:
        return False
    try:
        account = asking.gate.book().accounts.get(user.pk)
    except Denied:
        return False
    principal = None if account is None else account.principal
    return decide(principal, Action.ADMINISTER, CLUSTER).is_allowed
