"""The naming rules of topics, lite topics and groups. Knows text only."""

import re
from urllib.parse import quote

from mqclient.errors import InvalidName

_PATTERN = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
_LITE_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LITE_PREFIX = "%LITE%"


def checked_name(name: str, what: str) -> str:
    """Return the name; raise InvalidName when it breaks the rule."""
    if not _PATTERN.fullmatch(name):
        raise InvalidName(f"{what} {name!r} must match [%|a-zA-Z0-9_-]{{1,127}}")
    return name


def path_part(name: str) -> str:
    """Return a name escaped for one segment of a path."""
    return quote(name, safe="")


def lite_topic(parent: str, name: str) -> str:
    """Return what the lite topic `name` of a parent is called as a topic; raise InvalidName."""
    if not _LITE_PATTERN.fullmatch(name):
        raise InvalidName(f"lite topic {name!r} must match [a-zA-Z0-9_-]{{1,64}}")
    return checked_name(f"{_LITE_PREFIX}{parent}|{name}", "topic")


def lite_parts(topic: str) -> tuple[str, str] | None:
    """Return parent and name of a topic that is a lite one; None for any other."""
    if not topic.startswith(_LITE_PREFIX):
        return None
    parent, _, name = topic.removeprefix(_LITE_PREFIX).rpartition("|")
    return (parent, name) if parent and _LITE_PATTERN.fullmatch(name) else None
