"""`{% may "release" "group" name as act %}`: whether whoever looks may press a button, and why not.

A button that may not be pressed is shown disabled, with `{{ act.reason }}` as its title.
"""

from typing import Any

from django import template
from django.http import HttpRequest

from apps.access import asking
from apps.access.policy import Action, Decision, Kind, Resource

register = template.Library()


@register.simple_tag(takes_context=True)
def may(context: dict[str, Any], action: str, kind: str, name: str = "") -> Decision:
    """Return the decision about an action on a topic, a group or the cluster."""
    request: HttpRequest | None = context.get("request")
    access = asking.Access() if request is None else asking.access_of(request)
    return access.may(Action(action), Resource(Kind(kind), name))
