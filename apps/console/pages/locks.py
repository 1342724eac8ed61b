"""The page of locks and backlog. Knows the picture, and which part of it an address asks for."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.console import lockgrid
from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page

# A broken service blocks all of its queues at once; the grid has a filter for them.
STUCK_MAX = 50


@asking_page
def locks(posted: Posted, request: HttpRequest) -> Page:
    """Show who holds which queue of which group, what is left in it, and what changed."""
    found = posted.snapshot["locks"]
    chosen = lockgrid.chosen_by(request.GET.dict())
    grid = lockgrid.grid_of(found["rows"], chosen)
    stuck = [row for row in found["rows"] if row["trouble"]]
    return Page(
        template="console/locks.html",
        values={
            "locks": lockgrid.everything(found, chosen, grid),
            "grid": grid,
            "chosen": chosen,
            "view": chosen.query(),
            "states": list(lockgrid.STATES.items()),
            "before_query": chosen.query(page=grid.page - 1) if grid.page > 1 else None,
            "next_query": chosen.query(page=grid.page + 1) if grid.page < grid.pages else None,
            "stuck": [{**row, "acts": _acts(row)} for row in stuck[:STUCK_MAX]],
            "stuck_count": len(stuck),
        },
    )


def _acts(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    if row["state"] == "suspended":
        return [("resume", _("resume")), ("skip", _("skip")), ("park", _("park"))]
    return [("skip", _("skip")), ("park", _("park")), ("suspend", _("suspend"))]
