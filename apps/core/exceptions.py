"""Exceptions of Django and DRF to problem documents: the only exception handler of the API."""

import logging
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from apps.core import problems, requestids, statuses
from apps.engine.errors import EngineError

# Waiting longer than this for a database would only hide an outage from the caller.
DATABASE_RETRY_AFTER_S = 2

_log = logging.getLogger("mqweb.http")

DATABASE_ERRORS = (OperationalError, InterfaceError)


class ProblemError(Exception):
    """A refusal of the control plane itself; `code` is one of `problems.KINDS`."""

    def __init__(self, code: str, detail: str) -> None:
        """Keep the code and a sentence for the caller; raise KeyError for an unknown code."""
        super().__init__(detail)
        self.kind = problems.KINDS[code]


_CODE_BY_STATUS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "unauthenticated",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed",
    HTTPStatus.NOT_ACCEPTABLE: "not_acceptable",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "unsupported_media_type",
    HTTPStatus.TOO_MANY_REQUESTS: "too_many_requests",
}


def exception_handler(error: Exception, _context: Mapping[str, Any]) -> Response | None:
    """Turn an error of a view into a problem document; None leaves it to Django as a 500."""
    found = _document(error)
    if found is None:
        return None
    body, headers = found
    set_rollback()
    return Response(
        body, status=int(str(body["status"])), headers=headers, content_type=problems.MEDIA_TYPE
    )


def problem_response(
    request: HttpRequest, code: str, detail: str, *, headers: Mapping[str, str] | None = None
) -> JsonResponse:
    """Build a problem response outside DRF."""
    body = problems.problem_of_kind(code, detail=detail, request_id=request_id_of(request))
    return JsonResponse(
        body,
        status=problems.KINDS[code].status,
        content_type=problems.MEDIA_TYPE,
        headers=dict(headers or {}),
    )


def request_id_of(request: HttpRequest) -> str:
    """Return the id the middleware gave to the request, or a fresh one where it never ran."""
    return getattr(request, "request_id", "") or requestids.request_id_from(None)


def _document(error: Exception) -> tuple[dict[str, object], dict[str, str]] | None:
    request_id = requestids.current.get() or requestids.request_id_from(None)
    if isinstance(error, EngineError):
        return _of_engine_error(error, request_id)
    if isinstance(error, ProblemError):
        headers = {"Retry-After": str(DATABASE_RETRY_AFTER_S)} if error.kind.retriable else {}
        return _of_kind(error.kind.code, str(error), request_id), headers
    if isinstance(error, DATABASE_ERRORS):
        return (
            _of_kind(
                "database_unavailable",
                "the database does not answer; sends, receives and pulls of known topics go on",
                request_id,
            ),
            {"Retry-After": str(DATABASE_RETRY_AFTER_S)},
        )
    if isinstance(error, exceptions.ValidationError):
        errors = list(_pointers(error.detail))
        detail = errors[0]["detail"] if len(errors) == 1 else f"{len(errors)} values are refused"
        return (
            problems.problem_of_kind(
                "invalid_argument", detail=detail, request_id=request_id, errors=errors
            ),
            {},
        )
    if isinstance(error, Http404):
        return _of_kind("not_found", "nothing is served at this address", request_id), {}
    if isinstance(error, PermissionDenied):
        return _of_kind("forbidden", str(error) or "the caller may not do this", request_id), {}
    if isinstance(error, exceptions.ParseError):
        return _of_kind("bad_json", str(error.detail), request_id), {}
    if isinstance(error, exceptions.APIException):
        code = _CODE_BY_STATUS.get(error.status_code)
        if code is None:
            return None
        wait_s = getattr(error, "wait", None)
        headers = {"Retry-After": str(int(wait_s) + 1)} if wait_s else {}
        return _of_kind(code, str(error.detail), request_id), headers
    return None


def _of_engine_error(
    error: EngineError, request_id: str
) -> tuple[dict[str, object], dict[str, str]]:
    if statuses.status_of(error) == HTTPStatus.INTERNAL_SERVER_ERROR:
        # Its text may name files, so callers get the error's general meaning instead.
        _log.error("engine_damage_met", extra={"code": error.code}, exc_info=error)
        return _of_kind(error.code, problems.KINDS[error.code].meaning, request_id), {}
    headers = {"Retry-After": str(statuses.RETRY_AFTER_S)} if error.retriable else {}
    return problems.problem_of_error(error, request_id=request_id), headers


def _of_kind(code: str, detail: str, request_id: str) -> dict[str, object]:
    return problems.problem_of_kind(code, detail=detail, request_id=request_id)


def _pointers(detail: Any, pointer: str = "") -> Iterator[dict[str, str]]:
    """Walk DRF's nested details; each message gets the JSON pointer of the value it is about."""
    if isinstance(detail, Mapping):
        for name, below in detail.items():
            if name == "non_field_errors":
                yield from _pointers(below, pointer)
            else:
                escaped = str(name).replace("~", "~0").replace("/", "~1")
                yield from _pointers(below, f"{pointer}/{escaped}")
    elif isinstance(detail, list):
        for below in detail:
            yield from _pointers(below, pointer)
    else:
        yield {"pointer": pointer, "detail": str(detail)}
