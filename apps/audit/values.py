"""What of an object goes into an entry: plain, bounded JSON without secrets. Pure.

The digest of an entry is taken of what the database gives back, so only such values are let in as
come back as they were: no fraction, no null character, no half of a pair of surrogates.
"""

from collections.abc import Mapping, Sequence, Set
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from apps.core.pagination import rfc3339

TEXT_CHARACTERS_MAX = 1_000
ITEMS_MAX = 200
DEPTH_MAX = 6
LEFT_OUT = "(left out)"
INTEGER_MAX = 2**63

# Parts of names whose values nobody must find in a log: what opens doors, and what users send.
_SECRET = ("password", "secret", "token", "credential", "session", "cookie", "body", "properties")


def plain(value: object, *, depth: int = 0) -> Any:  # JSON has values of several types.
    """Return a value as JSON that the database gives back unchanged; long ones are cut.

    Raises TypeError for a value that says nothing to a reader, such as an object of a class.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return plain(value.value, depth=depth)
    if isinstance(value, int):
        return value if abs(value) < INTEGER_MAX else str(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < INTEGER_MAX else repr(value)
    if isinstance(value, str):
        return text(value, TEXT_CHARACTERS_MAX)
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, timedelta):
        return str(value)
    if depth >= DEPTH_MAX:
        return LEFT_OUT
    if isinstance(value, Mapping):
        return _mapping(value, depth=depth)
    if isinstance(value, Set):
        return plain(sorted(value, key=str), depth=depth)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        items = [plain(item, depth=depth + 1) for item in value[:ITEMS_MAX]]
        return [*items, f"and {len(value) - ITEMS_MAX} more"] if len(value) > ITEMS_MAX else items
    raise TypeError(f"{type(value).__name__} is no value for the audit log")


def text(found: str, characters_max: int) -> str:
    """Return a text that a column can hold: at most so long, and of whole characters."""
    whole = found.replace("\0", "\N{REPLACEMENT CHARACTER}")
    whole = whole.encode(errors="replace").decode()
    return whole if len(whole) <= characters_max else f"{whole[: characters_max - 1]}…"


def _mapping(value: Mapping[Any, object], *, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, below in list(value.items())[:ITEMS_MAX]:
        key = text(str(name), TEXT_CHARACTERS_MAX)
        is_secret = any(part in key.lower() for part in _SECRET)
        found[key] = LEFT_OUT if is_secret else plain(below, depth=depth + 1)
    if len(value) > ITEMS_MAX:
        found["…"] = f"and {len(value) - ITEMS_MAX} more"
    return found
