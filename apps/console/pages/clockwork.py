"""The page of the clockwork. Knows the picture; does no arithmetic on it."""

from apps.console.board import Posted
from apps.console.pages.common import Page, console_page


@console_page
def clockwork(posted: Posted) -> Page:
    """Show tasks, processes and the last runs."""
    return Page(
        template="console/clockwork.html", values={"clockwork": posted.snapshot["clockwork"]}
    )
