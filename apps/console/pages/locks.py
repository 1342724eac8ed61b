"""The page of locks and backlog. Knows the picture; does no arithmetic on it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.console.board import Posted
from apps.console.pages.common import Page, console_page
from apps.groups.selectors import lock_id


@console_page
def locks(posted: Posted) -> Page:
    """Show who holds which queue of which group, what is left in it, and what changed."""
    found = posted.snapshot["locks"]
    named = [_named(row) for row in found["rows"]]
    return Page(
        template="console/locks.html",
        values={
            "locks": found,
            "rows_to_open": named,
            "stuck": [{**row, "acts": _acts(row)} for row in named if row["trouble"]],
        },
    )


@require_safe
def opened(request: HttpRequest) -> HttpResponse:
    """Lead to the page of the lock that was chosen."""
    lock = request.GET.get("lock", "")
    # Quoted as a whole: what was chosen may be anything, and must stay one part of our address.
    part = quote(lock, safe="~")
    return HttpResponseRedirect(f"/locks/{part}/" if lock.strip(".") else "/locks")


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "lock": lock_id(row["group"], row["topic"], row["queue"])}


def _acts(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    if row["state"] == "suspended":
        return [("resume", _("resume")), ("skip", _("skip")), ("park", _("park"))]
    return [("skip", _("skip")), ("park", _("park")), ("suspend", _("suspend"))]
