"""Tells the audit log what was denied. Knows where a request came from; decides nothing."""

from django.http import HttpRequest

from apps.access.gate import Denied, Knock
from apps.audit.services import count_refusal, refused
from apps.core.actors import actor_of
from apps.core.origins import Door, Origin

_REQUEST = "request"


def of_data_plane(denied: Denied, knock: Knock) -> None:
    """Count a denial at a door that is served on an event loop; never asks the database."""
    _count(denied, knock, Door.DATA)


def of_socket(denied: Denied, source: str) -> None:
    """Count a denial at the handshake of a live page, as `of_data_plane` does."""
    if denied.is_telling:
        _count(denied, Knock(source=source), Door.SOCKET)


def of_request(request: HttpRequest, denied: Denied) -> None:
    """Keep a denial of a page or of the API: a right that is missing, or a token that is wrong.

    A session whose time is over is neither. May ask the database.
    """
    if denied.kept_code != "forbidden" and "HTTP_AUTHORIZATION" not in request.META:
        return
    if denied.is_telling:
        kind, name = _place(denied, request.path)
        refused(
            by=denied.by or actor_of(request),
            kind=kind,
            name=name,
            code=denied.kept_code,
            detail=denied.reason,
        )


def _count(denied: Denied, knock: Knock, door: Door) -> None:
    kind, name = _place(denied, knock.path)
    count_refusal(
        by=denied.by or f"anonymous at {knock.source or 'an unknown address'}",
        kind=kind,
        name=name,
        code=denied.kept_code,
        detail=denied.reason,
        origin=Origin(door=door, address=knock.source, agent=knock.agent),
    )


def _place(denied: Denied, path: str) -> tuple[str, str]:
    """Return what was asked for: a thing that decisions know, else an address."""
    if denied.resource is None:
        return _REQUEST, path
    return denied.resource.kind.value, denied.resource.name
