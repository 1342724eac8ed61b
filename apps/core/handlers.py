"""Django's own error answers: problem documents under /api, short pages elsewhere."""

import logging
import sys

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import Resolver404, resolve
from django.utils.encoding import escape_uri_path, iri_to_uri
from django.utils.http import escape_leading_slashes
from django.utils.translation import gettext as _
from django.views import defaults

from apps.core.exceptions import DATABASE_ERRORS, DATABASE_RETRY_AFTER_S, problem_response
from apps.core.phrases import told

_log = logging.getLogger("mqweb.http")


def is_api(request: HttpRequest) -> bool:
    """Say whether the caller expects problem documents."""
    return request.path.startswith("/api/")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 400: a request that Django found suspicious, such as a foreign Host header."""
    if is_api(request):
        kind = type(exception).__name__
        code = "bad_host" if kind == "DisallowedHost" else "malformed_request"
        return problem_response(request, code, "the request was refused before it was read")
    return defaults.bad_request(request, exception)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 403."""
    if is_api(request):
        reason = str(exception) or "the caller may not do this"
        return problem_response(request, "forbidden", reason)
    reason = told(exception) or _("the caller may not do this")
    return render(request, "errors/403.html", {"reason": reason}, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 404."""
    if is_api(request):
        return problem_response(request, "not_found", "nothing is served at this address")
    if isinstance(exception, Resolver404) and request.method in ("GET", "HEAD"):
        meant = _with_the_other_end(request)
        if meant is not None:
            return HttpResponseRedirect(meant)
    return defaults.page_not_found(request, exception, template_name="errors/404.html")


def _with_the_other_end(request: HttpRequest) -> str | None:
    """Return the address with its slash at the end, or without, where that is a page's.

    People type addresses, and no two products agree about this slash.
    """
    path = request.path_info
    other = path.rstrip("/") if path.endswith("/") else f"{path}/"
    try:
        found = resolve(other)
    except Resolver404:
        return None
    # No name has a slash: that would be the address of something below it, taken for a name.
    if any("/" in str(part) for part in found.kwargs.values()):
        return None
    query = request.META.get("QUERY_STRING", "")
    address = escape_leading_slashes(escape_uri_path(other))
    return f"{address}?{iri_to_uri(query)}" if query else address


def failed(request: HttpRequest) -> HttpResponse:
    """Answer 500, or 503 where the database is what failed."""
    if isinstance(sys.exc_info()[1], DATABASE_ERRORS):
        return database_unavailable(request)
    if is_api(request):
        return problem_response(
            request, "internal_error", "the server failed; its log has the request id"
        )
    return defaults.server_error(request, template_name="errors/500.html")


def packed(request: HttpRequest) -> HttpResponse:
    """Answer 415 for a body in a Content-Encoding."""
    detail = "a body is taken as it is, in no Content-Encoding"
    if is_api(request):
        return problem_response(request, "unsupported_media_type", detail)
    return HttpResponse(f"{detail.capitalize()}.\n", status=415, content_type="text/plain")


def audit_unavailable(request: HttpRequest, detail: str) -> HttpResponse:
    """Answer 503 for an act that was not begun, because it could not be written down."""
    headers = {"Retry-After": str(DATABASE_RETRY_AFTER_S)}
    if is_api(request):
        return problem_response(request, "audit_unavailable", detail, headers=headers)
    return HttpResponse(
        f"{detail[:1].upper()}{detail[1:]}.\n",
        status=503,
        content_type="text/plain; charset=utf-8",
        headers=headers,
    )


def database_unavailable(request: HttpRequest) -> HttpResponse:
    """Answer 503 while the database is away."""
    _log.warning("page_without_database", extra={"path": request.path})
    headers = {"Retry-After": str(DATABASE_RETRY_AFTER_S)}
    if is_api(request):
        detail = "The database does not answer. Messages are still sent and received."
        return problem_response(request, "database_unavailable", detail, headers=headers)
    text = _("The database does not answer. Messages are still sent and received.")
    return HttpResponse(
        f"{text}\n", status=503, content_type="text/plain; charset=utf-8", headers=headers
    )
