"""What every page and control-plane answer gets: a request id, a log line, security headers."""

import logging
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from apps.core import handlers, requestids
from apps.core.exceptions import DATABASE_ERRORS
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


class DatabaseOutageMiddleware:
    """Answer 503 for pages that need the database while it is away."""

    def __init__(self, get_response: GetResponse) -> None:
        """Wrap the rest of the chain."""
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Pass the request on."""
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Turn a database error of a page into a 503; leave every other error alone."""
        if isinstance(error, DATABASE_ERRORS):
            return handlers.database_unavailable(request)
        return None
