"""The page of locks and backlog. Knows the picture; does no arithmetic on it."""

from apps.console.board import Posted
from apps.console.pages.common import Page, console_page


@console_page
def locks(posted: Posted) -> Page:
    """Show who holds which queue of which group, what is left in it, and what changed."""
    return Page(template="console/locks.html", values={"locks": posted.snapshot["locks"]})
