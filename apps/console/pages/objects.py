"""A page for each topic. Knows the picture; a name it lacks gets a helpful 404."""

from django.http import HttpRequest

from apps.access import asking
from apps.access.policy import Kind
from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page
from apps.groups.retrytopics import group_of


@asking_page
def topic(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show one topic: its queues, and who reads them, as far as the viewer may see groups."""
    is_shown = asking.shown_to(request, Kind.GROUP)
    found = next((row for row in posted.snapshot["topics"] if row["name"] == name), None)
    if found is None:
        return Page(
            template="console/no_topic.html",
            values={"name": name, "group": group_of(name)},
            status=404,
        )

    readers = [
        {"group": group["name"], **progress}
        for group in posted.snapshot["groups"]
        if is_shown(group["name"])
        for progress in group["queues"]
        if progress["topic"] == name
    ]
    return Page(template="console/topic.html", values={"topic": found, "readers": readers})
