"""The naming rule of topics and groups. Knows text only."""

import re
from urllib.parse import quote

from mqclient.errors import InvalidName

_PATTERN = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")


def checked_name(name: str, what: str) -> str:
    """Return the name; raise InvalidName when it breaks the rule."""
    if not _PATTERN.fullmatch(name):
        raise InvalidName(f"{what} {name!r} must match [%|a-zA-Z0-9_-]{{1,127}}")
    return name


def path_part(name: str) -> str:
    """Return a name escaped for one segment of a path."""
    return quote(name, safe="")
