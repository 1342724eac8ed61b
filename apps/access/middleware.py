"""The decision in front of everything Django serves. Knows the table of rights; no page.

A route without a row is closed. A request with a token is that token's, whatever cookie it has.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.shortcuts import render
from django.utils.module_loading import import_string

from apps.access import asking, reaching, telling
from apps.access.gate import HIDDEN, LACKS_FACTOR, Denied, Rights, refusal_of
from apps.access.policy.reasons import because
from apps.access.table import Open, Row, Somewhere, Table, Throughout
from apps.core import phrases
from apps.core.exceptions import problem_response
from apps.core.handlers import database_unavailable, is_api

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
# Marks the refusal that pages answer by leading to where a second factor is set up.
_SET_UP = "second factor"
_SET_UP_AT = "/account/second-factor"
_ADMINS_SIGN_IN = "admin/login/"
# Below the API's address, and read by people in a browser.
_FOR_PEOPLE = "/api/docs/"

_log = logging.getLogger("mqweb.access")


class AccessMiddleware:
    """Let a request through to its view, or answer it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        """Wrap the rest of the chain."""
        self._get_response = get_response
        self._table: Table = import_string(settings.ACCESS_TABLE)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Pass the request on; the decision is made when its view is known."""
        return self._get_response(request)

    def process_view(
        self,
        request: HttpRequest,
        _view: Callable[..., Any],
        _args: Sequence[Any],
        parts: Mapping[str, Any],
    ) -> HttpResponseBase | None:
        """Return the refusal; None lets the request through."""
        if not asking.is_on():
            request.access = asking.Access()  # type: ignore[attr-defined]
            return None
        match = request.resolver_match
        assert match is not None
        if match.route == _ADMINS_SIGN_IN:
            return _to_sign_in(request, request.GET.get("next", "/admin/"))
        row = self._table.row(match.route, request.method or "")
        try:
            return self._decided(request, row, parts)
        except Denied as denied:
            return _refused(request, denied)

    def process_exception(self, request: HttpRequest, error: Exception) -> None:
        """Have refusals of views written down as those of the table are; Django answers them."""
        if asking.is_on() and isinstance(error, PermissionDenied):
            asking.tell_of_refusal(request, error)

    def _decided(
        self, request: HttpRequest, row: Row | None, parts: Mapping[str, Any]
    ) -> HttpResponseBase | None:
        is_for_all = isinstance(row, Open) and not row.is_for_accounts
        try:
            rights = _rights(request)
        except Denied:
            if is_for_all:
                request.access = asking.Access()  # type: ignore[attr-defined]
                return None
            raise
        lets_in = is_for_all or (isinstance(row, Open) and row.is_before_factor)
        if asking.gate.lacks_factor(rights.caller):
            # Nothing is told to them: not even what the menu has.
            request.access = asking.Access()  # type: ignore[attr-defined]
            if not lets_in:
                raise Denied("forbidden", LACKS_FACTOR, challenge=_SET_UP)
            return None
        access = asking.Access(rights)
        request.access = access  # type: ignore[attr-defined]
        if isinstance(row, Open):
            return None
        if row is None:
            raise Denied("forbidden", because("no right is known that would be enough for this"))
        caller = rights.caller
        by = caller.label or caller.principal.name
        if isinstance(row, Somewhere | Throughout):
            decision = reaching.decided(access, row, parts)
            if decision.is_allowed:
                return None
            raise Denied("forbidden", decision.reason, by=by)
        resource = row.resource_of(parts)
        if access.may_one(row.actions, resource).is_allowed:
            return None
        raise refusal_of(caller.principal, row.actions, resource, caller.source, by=by)


def _rights(request: HttpRequest) -> Rights:
    """Return who asks; raise Denied. What a session asks to change must come from our pages."""
    if "HTTP_AUTHORIZATION" in request.META:
        if not is_api(request):
            raise Denied("unauthenticated", because("pages take a session, and no token"))
        rights = asking.by_token(request)
        # For those who write down who did it; it is read from no table.
        caller = rights.caller
        request.user = get_user_model()(pk=caller.account, username=caller.principal.name)
        request.actor = caller.label  # type: ignore[attr-defined]
        return rights
    rights = asking.by_session(request)
    if is_api(request) and request.method not in _SAFE:
        # Views of the API are exempt from Django's own check, for the sake of tokens.
        check = _CsrfCheck(lambda _request: HttpResponse())
        check.process_request(request)
        if (reason := check.process_view(request, _nothing, (), {})) is not None:
            raise Denied("forbidden", f"the session's CSRF token is missing or wrong: {reason}")
    return rights


class _CsrfCheck(CsrfViewMiddleware):
    def _reject(self, _request: HttpRequest, reason: str) -> Any:
        return reason


def _nothing(_request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def _refused(request: HttpRequest, denied: Denied) -> HttpResponseBase:
    if denied.code == "database_unavailable":
        return database_unavailable(request)
    if denied.challenge != _SET_UP:
        telling.of_request(request, denied)
    if denied.kept_code == "forbidden":
        extra = {"path": request.path, "method": request.method, "detail": denied.reason}
        _log.warning("request_forbidden", extra=extra)
    if is_api(request) and not request.path.startswith(_FOR_PEOPLE):
        is_challenge = denied.challenge and denied.challenge != _SET_UP
        headers = {"WWW-Authenticate": denied.challenge} if is_challenge else {}
        return problem_response(request, denied.code, str(denied), headers=headers)
    if denied.challenge == _SET_UP:
        return HttpResponseRedirect(_SET_UP_AT)
    if denied.code == "unauthenticated":
        return _to_sign_in(request, request.get_full_path() if request.method == "GET" else "/")
    if denied.code == HIDDEN:
        return render(request, "errors/404.html", status=404)
    return render(request, "errors/403.html", {"reason": phrases.told(denied)}, status=403)


def _to_sign_in(_request: HttpRequest, back: str) -> HttpResponse:
    return HttpResponseRedirect(f"{settings.LOGIN_URL}?{urlencode({'next': back})}")
