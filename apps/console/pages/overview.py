"""The first page: everything at a glance. Knows the picture; does no arithmetic on it."""

from django.conf import settings

from apps.console import frames
from apps.console.board import Posted
from apps.console.pages.common import Page, console_page


@console_page
def overview(posted: Posted) -> Page:
    """Show totals, topics, groups and the store."""
    shown = frames.shown(posted.snapshot)
    return Page(
        template="console/overview.html",
        values={
            "topics": shown["topics"],
            "groups": shown["groups"],
            "is_cut": shown["is_cut"],
            "deaths": shown["deaths"],
            "topics_max": frames.TOPICS_MAX,
            "groups_max": frames.GROUPS_MAX,
            "acknowledge_mode": settings.MQWEB.ack,
        },
    )
