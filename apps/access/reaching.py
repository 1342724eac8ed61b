"""Whether an address would be answered, and rows of the admin are shown. Knows the table of rights.

A page that asks here shows as closed exactly what the middleware would refuse.
"""

from collections.abc import Mapping
from functools import lru_cache

from django.conf import settings
from django.db.models import Model
from django.http import HttpRequest
from django.urls import Resolver404, resolve
from django.utils.module_loading import import_string

from apps.access import asking
from apps.access.policy import Decision, Kind
from apps.access.policy.reasons import because
from apps.access.table import Need, Open, Row, Somewhere, Table, Throughout
from apps.core.adminacts import Call, Place, RowAct

_NO_ADDRESS = Decision(False, because("there is no such address"))
_NO_ROW = Decision(False, because("no right is known that would be enough for this"))
_OPEN = Decision(True, "open")
_SIGN_IN = Decision(False, because("nobody is signed in"))
_NO_PERMISSION = Decision(False, because("your account does not have this right"))


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
    return decided(access, _table(settings.ACCESS_TABLE).row(route, method), parts)


def may_call(
    request: HttpRequest, call: Call, place: Place | None, permission: str = ""
) -> Decision:
    """Return the decision about a route's address at a place; None is at any at all.

    While access is off Django's permission is asked for, where one is named.
    """
    if not asking.is_on():
        may = not permission or request.user.has_perm(permission)
        return _OPEN if may else _NO_PERMISSION
    access = asking.access_of(request)
    row = _table(settings.ACCESS_TABLE).row(call.route, call.method)
    if place is None and isinstance(row, Need):
        kind = row.resource_of(_ANY_PARTS).kind
        if kind is not Kind.CLUSTER:
            return access.may_one_somewhere(row.actions, kind)
    if place is not None and isinstance(row, Somewhere):
        return access.may_one_on_each(row.actions, row.kind, place.names)
    return decided(access, row, _ANY_PARTS if place is None else place.parts)


def may_rows(
    request: HttpRequest, model: type[Model], act: RowAct, row: Model | None
) -> Decision | None:
    """Return the decision about an act on a row of a model, or on some row of it.

    None while access is off: then Django's own permissions decide.
    """
    if not asking.is_on():
        return None
    access = asking.access_of(request)
    needed: Row = getattr(_table(settings.ACCESS_TABLE).model(model._meta.label_lower), act)
    if isinstance(needed, Somewhere) and row is not None:
        # The table names only models whose rows are topics or groups here.
        return access.may_one_on_each(needed.actions, needed.kind, [row.name])  # type: ignore[attr-defined]
    return decided(access, needed, _ANY_PARTS)


def decided(access: asking.Access, row: Row | None, parts: Mapping[str, object]) -> Decision:
    """Return the decision about an address by its row, as the middleware makes it."""
    if row is None:
        return _NO_ROW
    if isinstance(row, Open):
        return _SIGN_IN if row.is_for_accounts and access.rights is None else _OPEN
    if isinstance(row, Somewhere):
        return access.may_one_somewhere(row.actions, row.kind)
    if isinstance(row, Throughout):
        return access.sees_throughout(peeks=row.peeks)
    return access.may_one(row.actions, row.resource_of(parts))


class _AnyParts(dict[str, str]):
    """Parts of an address that nobody has named yet: only the kind of the thing is asked for."""

    def __missing__(self, _part: str) -> str:
        return "any"


_ANY_PARTS = _AnyParts()


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
