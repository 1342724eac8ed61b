"""The page of the clockwork. Knows the picture; does no arithmetic on it."""

from apps.clockwork.models import Part
from apps.clockwork.selectors import PARTS_SHOWN, RUNS_SHOWN
from apps.console.board import Posted
from apps.console.pages.common import Page, console_page


@console_page
def clockwork(posted: Posted) -> Page:
    """Show tasks, processes and the last runs."""
    picture = posted.snapshot["clockwork"]
    return Page(
        template="console/clockwork.html",
        values={
            "clockwork": picture,
            # Of beats there is one at a time; only workers may be more than are listed.
            "workers": [one for one in picture["parts"] or () if one["kind"] == Part.Kind.WORKER],
            "parts_max": PARTS_SHOWN,
            "runs_max": RUNS_SHOWN,
        },
    )
