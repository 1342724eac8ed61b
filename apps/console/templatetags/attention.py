"""What needs somebody, for a part of a page. Reads what is in memory: no query, no engine."""

from django import template

from apps.console.attention import AttentionPicture, watch
from apps.engine.clock import SystemClock

register = template.Library()


@register.simple_tag
def attention_now() -> AttentionPicture:
    """Return what needs somebody now."""
    return watch.picture(clock=SystemClock())
