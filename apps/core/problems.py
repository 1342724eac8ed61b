"""Problem documents (RFC 9457) as dictionaries. Pure: knows engine errors, nothing of Django."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from apps.core.statuses import status_of
from apps.engine.errors import EngineError

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One sort of problem: what its code says, its status, and whether a retry can help."""

    code: str
    status: int
    title: str
    meaning: str
    retriable: bool = False


def problem(
    *,
    status: int,
    code: str,
    title: str,
    detail: str,
    retriable: bool,
    request_id: str,
    errors: Sequence[Mapping[str, str]] = (),
) -> dict[str, object]:
    """Build a problem document; `type` is a page of this server that explains the code."""
    return {
        "type": f"/problems/{code}",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "retriable": retriable,
        "request_id": request_id,
        "errors": [dict(error) for error in errors],
    }


def problem_of_kind(
    code: str, *, detail: str, request_id: str, errors: Sequence[Mapping[str, str]] = ()
) -> dict[str, object]:
    """Build the problem document of a known code; raise KeyError for an unknown one."""
    kind = KINDS[code]
    return problem(
        status=kind.status,
        code=code,
        title=kind.title,
        detail=detail,
        retriable=kind.retriable,
        request_id=request_id,
        errors=errors,
    )


def problem_of_error(
    error: EngineError, *, request_id: str, errors: Sequence[Mapping[str, str]] = ()
) -> dict[str, object]:
    """Build the problem document of an engine error; its text becomes the detail."""
    return problem_of_kind(
        error.code,
        detail=str(error) or KINDS[error.code].meaning,
        request_id=request_id,
        errors=errors,
    )


def engine_error_classes() -> list[type[EngineError]]:
    """Return EngineError and every class of its tree, parents first.

    A part of the engine may have a case of its own below one of them; nobody outside sees it as
    anything but the one above, whose code it has.
    """
    classes: list[type[EngineError]] = [EngineError]
    for kind in classes:
        classes += [one for one in kind.__subclasses__() if one.__module__ == kind.__module__]
    return classes


def _title(code: str) -> str:
    return code.replace("_", " ").capitalize()


def _kinds_of_engine() -> list[Kind]:
    return [
        Kind(
            code=kind.code,
            status=status_of(kind),
            title=_title(kind.code),
            meaning=(kind.__doc__ or "").strip().splitlines()[0],
            retriable=kind.retriable,
        )
        for kind in engine_error_classes()
    ]


def _kinds_of_http() -> list[Kind]:
    rows = [
        (400, "bad_json", "The body is not JSON in UTF-8.", False),
        (400, "bad_host", "The Host header is not one this server answers to.", False),
        (400, "malformed_request", "The request is not well-formed.", False),
        (401, "unauthenticated", "The request carries no token this server knows.", False),
        (403, "forbidden", "The caller may not do this.", False),
        (404, "not_found", "Nothing is served at this address.", False),
        (404, "unknown_group", "The engine has no progress of such a group.", False),
        (404, "unknown_handle", "Nothing is known of such a recall handle.", False),
        (405, "method_not_allowed", "The address does not take this method.", False),
        (406, "not_acceptable", "No answer can be given in the accepted media types.", False),
        (409, "already_cancelled", "The delayed message was cancelled.", False),
        (409, "already_delivered", "The delayed message was delivered.", False),
        (409, "conflict", "The state changed since the caller looked.", False),
        (408, "request_timeout", "The body did not arrive in time.", True),
        (411, "length_required", "The request must say how long its body is.", False),
        (413, "request_too_large", "The request is longer than the limit.", False),
        (415, "unsupported_media_type", "The body's media type is not taken here.", False),
        (426, "upgrade_required", "The address serves another protocol than HTTP.", False),
        (429, "too_many_requests", "The caller asks more often than it may.", True),
        (500, "internal_error", "The server failed; its log has the request id.", False),
        (501, "spark_unavailable", "Java or PySpark is missing where pipelines run.", False),
        (503, "audit_unavailable", "The act could not be written down, so it was not done.", True),
        (503, "database_unavailable", "The control plane's database does not answer.", True),
    ]
    return [
        Kind(code=code, status=status, title=_title(code), meaning=meaning, retriable=retriable)
        for status, code, meaning, retriable in rows
    ]


KINDS: Mapping[str, Kind] = MappingProxyType(
    {kind.code: kind for kind in (*_kinds_of_engine(), *_kinds_of_http())}
)
