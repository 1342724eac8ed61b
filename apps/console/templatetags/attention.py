"""What needs somebody, for a part of a page. Reads what is in memory: no query, no engine."""

from typing import Any

from django import template
from django.http import HttpRequest

from apps.access.asking import sight_of
from apps.access.policy import Sight
from apps.console.attention import AttentionPicture, watch
from apps.engine.clock import SystemClock

register = template.Library()


@register.simple_tag(takes_context=True)
def attention_now(context: dict[str, Any]) -> AttentionPicture:
    """Return what needs somebody now, as far as whoever looks may see it."""
    request: HttpRequest | None = context.get("request")
    sight = Sight(None) if request is None else sight_of(request)
    return watch.picture(clock=SystemClock(), sight=sight)
