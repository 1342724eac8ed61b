"""What every page and control-plane answer gets: a request id, a log line, security headers.

And what every act that a request asks for gets: where it comes from.
"""

import logging
from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone, translation
from django.utils.cache import patch_vary_headers

from apps.core import handlers, origins, requestids
from apps.core.exceptions import DATABASE_ERRORS, ProblemError
from apps.core.languages import language_of
from apps.core.zones import zone_of
from apps.engine.clock import SystemClock

GetResponse = Callable[[HttpRequest], HttpResponseBase]

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)

_log = logging.getLogger("mqweb.http")


class RequestIdMiddleware:
    """Name the request, log its end, and tell the caller the name."""

    def __init__(self, get_response: GetResponse) -> None:
        """Wrap the rest of the chain."""
        self._get_response = get_response
        self._clock = SystemClock()

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Carry out the request under its name."""
        request_id = requestids.request_id_from(request.headers.get(requestids.HEADER))
        request.request_id = request_id  # type: ignore[attr-defined]
        token = requestids.current.set(request_id)
        started_ms = self._clock.monotonic_ms()
        try:
            response = self._get_response(request)
            response.headers[requestids.HEADER] = request_id
            _log.info(
                "http_request",
                extra={
                    "method": request.method,
                    "path": request.path,
                    "status": response.status_code,
                    "duration_ms": self._clock.monotonic_ms() - started_ms,
                },
            )
            return response
        finally:
            requestids.current.reset(token)


class OriginMiddleware:
    """Say where what a request does comes from, for the audit log."""

    def __init__(self, get_response: GetResponse) -> None:
        """Wrap the rest of the chain."""
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Carry out the request as one from its caller."""
        origin = origins.Origin(
            door=origins.door_of_path(request.path),
            # The caller's: what headers say of another one was judged where connections come in.
            address=request.META.get("REMOTE_ADDR") or "",
            agent=request.headers.get("User-Agent", ""),
        )
        with origins.come_from(origin):
            return self._get_response(request)


class SecurityPolicyMiddleware:
    """Set the content security policy on every answer that does not bring its own."""

    def __init__(self, get_response: GetResponse) -> None:
        """Wrap the rest of the chain."""
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Add the header."""
        response = self._get_response(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        return response


class ViewerMiddleware:
    """Carry out what a page is asked for in the language and the time zone of its viewer.

    The API is left alone: programs are answered in English and UTC, whoever runs them. So is what
    is streamed after the answer has begun, as exports are.
    """

    def __init__(self, get_response: GetResponse) -> None:
        """Wrap the rest of the chain."""
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Pass the request on, and say in which language the answer is."""
        if handlers.is_api(request):
            return self._get_response(request)
        language = language_of(request)
        with translation.override(language.value), timezone.override(zone_of(request)):
            response = self._get_response(request)
        response.headers.setdefault("Content-Language", language.tag)
        # Of the same address a shared cache would else keep one language for everybody.
        patch_vary_headers(response, ("Accept-Language", "Cookie"))
        return response


class UnreadableMiddleware:
    """Refuse what no view is to read.

    A body that is packed may be a thousand times as long as it says. A zero character in an address
    is in no name there can be, and PostgreSQL has no way to look for it.
    """

    def __init__(self, get_response: GetResponse) -> None:
        """Wrap the rest of the chain."""
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Pass the request on, or answer 404 or 415."""
        if "\0" in request.path:
            return handlers.not_found(request, Http404())
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            return handlers.packed(request)
        return self._get_response(request)


class DatabaseOutageMiddleware:
    """Answer 503 for pages that need the database while it is away.

    An act that cannot be written down for that reason is refused in the same way.
    """

    def __init__(self, get_response: GetResponse) -> None:
        """Wrap the rest of the chain."""
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Pass the request on."""
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Turn such an error of a page into a 503; leave every other error alone."""
        if isinstance(error, ProblemError) and error.kind.code == "audit_unavailable":
            return handlers.audit_unavailable(request, str(error))
        if isinstance(error, DATABASE_ERRORS):
            return handlers.database_unavailable(request)
        return None
