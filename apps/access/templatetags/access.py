"""`{% may "release" "group" name as act %}`: whether whoever looks may press a button, and why not.

A button that may not be pressed is shown disabled, with `{{ act.reason }}` as its title. Where its
address is at hand, `{% may_send "/alerts/" row.id "/acknowledge" as act %}` asks for the same right
as that address does, and `{% may_open "/audit" as found %}` whether a link leads anywhere.
"""

from typing import Any

from django import template
from django.http import HttpRequest

from apps.access import asking
from apps.access.policy import Action, Decision, Kind, Resource
from apps.access.reaching import reach
from apps.core.phrases import read

register = template.Library()


@register.simple_tag(takes_context=True)
def may(context: dict[str, Any], action: str, kind: str, name: str = "") -> Decision:
    """Return the decision about an action on a topic, a group or the cluster."""
    request: HttpRequest | None = context.get("request")
    access = asking.Access() if request is None else asking.access_of(request)
    return _told(access.may(Action(action), Resource(Kind(kind), name)))


@register.simple_tag(takes_context=True)
def may_somewhere(context: dict[str, Any], action: str, kind: str) -> Decision:
    """Return whether there may be a name that the action is allowed on, as for something new."""
    request: HttpRequest | None = context.get("request")
    access = asking.Access() if request is None else asking.access_of(request)
    return _told(access.may_somewhere(Action(action), Kind(kind)))


@register.simple_tag(takes_context=True)
def may_send(context: dict[str, Any], *parts: object) -> Decision:
    """Return the decision about a form's address, given in parts that are not quoted."""
    return _told(reach(context.get("request"), "POST", "".join(map(str, parts))))


@register.simple_tag(takes_context=True)
def may_open(context: dict[str, Any], *parts: object) -> Decision:
    """Return the decision about a page's address, given in parts that are not quoted."""
    return _told(reach(context.get("request"), "GET", "".join(map(str, parts))))


def _told(decision: Decision) -> Decision:
    """Return a decision with its reason in the viewer's language."""
    return decision if decision.is_allowed else Decision(False, read(decision.reason))
