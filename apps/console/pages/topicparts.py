"""The parts of a topic's page that have addresses of their own. Knows the picture and selectors."""

from django.http import HttpRequest

from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page
from apps.console.pages.messages import found_page


@asking_page
def newest(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show the newest messages of a topic, or those that a search finds in it."""
    return found_page(
        posted,
        request,
        template="console/messages/topic_messages.html",
        topic=name,
        here="messages",
        topic_name=name,
    )
