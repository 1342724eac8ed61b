"""Whether an address would be answered, asked before somebody is led there. Knows the table.

A page that asks here shows as closed exactly what the middleware would refuse.
"""

from collections.abc import Mapping
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest
from django.urls import Resolver404, resolve
from django.utils.module_loading import import_string

from apps.access import asking
from apps.access.policy import Decision
from apps.access.table import Open, Table

_NO_ADDRESS = Decision(False, "there is no such address")
_NO_ROW = Decision(False, "no right is known that would be enough for this")
_OPEN = Decision(True, "open")
_SIGN_IN = Decision(False, "nobody is signed in")


def reach(request: HttpRequest | None, method: str, path: str) -> Decision:
    """Return the decision about a request that whoever looks could make.

    `path` is unquoted and has no query. What only a body names is not known here.
    """
    if not asking.is_on():
        return _OPEN
    access = asking.Access() if request is None else asking.access_of(request)
    place = _place(path)
    if place is None:
        return _NO_ADDRESS
    route, parts = place
    row = _table(settings.ACCESS_TABLE).row(route, method)
    if row is None:
        return _NO_ROW
    if isinstance(row, Open):
        return _SIGN_IN if row.is_for_accounts and access.rights is None else _OPEN
    return access.may_one(row.actions, row.resource_of(parts))


# Each page asks about the same entries of its menu.
@lru_cache(maxsize=1024)
def _place(path: str) -> tuple[str, Mapping[str, object]] | None:
    try:
        match = resolve(path)
    except Resolver404:
        return None
    return match.route, match.kwargs


@lru_cache(maxsize=4)
def _table(name: str) -> Table:
    found: Table = import_string(name)
    return found
