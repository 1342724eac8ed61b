"""The page of a group. Knows the picture, and asks what a picture does not hold: its retries."""

from django.http import HttpRequest

from apps.console import deathwatch
from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page
from apps.console.retries import RetriesShown, retries_shown
from apps.deadletters import selectors
from apps.engine.errors import EngineError


@asking_page
def group(posted: Posted, _request: HttpRequest, *, name: str) -> Page:
    """Show one group: how far it is in each queue, and what is to come again to it."""
    found = next((row for row in posted.snapshot["groups"] if row["name"] == name), None)
    if found is None:
        return Page(template="console/no_group.html", values={"name": name}, status=404)

    retries, trouble = _retries(name)
    return Page(
        template="console/group.html",
        values={
            "group": found,
            "retries": retries,
            "retries_trouble": trouble,
            "letters": deathwatch.of_group(posted.snapshot["deaths"], name),
            "deaths": posted.snapshot["deaths"],
        },
    )


def _retries(name: str) -> tuple[RetriesShown | None, str]:
    try:
        return retries_shown(selectors.retries(name)), ""
    except EngineError as error:
        return None, f"The retries cannot be counted: {error}."
