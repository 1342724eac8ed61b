"""What results call things, as people read it. Pure: codes of rows to phrases.

Files and the API keep the codes; one that is not here is shown as it is.
"""

from collections.abc import Mapping
from typing import Final

from apps.core.phrases import Text, phrase_in

_DISORDERS: Final[Mapping[str, Text]] = {
    "two_queues": phrase_in("disorder", "two queues"),
    "backwards": phrase_in("disorder", "backwards"),
    "overlap": phrase_in("disorder", "overlap"),
}
_PATTERNS: Final[Mapping[str, Text]] = {
    "moved": phrase_in("disorder", "moved once"),
    "mixed": phrase_in("disorder", "to and fro"),
}
_COPIES: Final[Mapping[str, Text]] = {
    "stored": phrase_in("duplicate", "stored"),
    "consumed": phrase_in("duplicate", "consumed"),
}
_CAUSES: Final[Mapping[str, Text]] = {
    "resend": phrase_in("duplicate", "sent again"),
    "retry": phrase_in("duplicate", "retry"),
    "rebalance": phrase_in("duplicate", "rebalance"),
    "timeout": phrase_in("duplicate", "time-out"),
    "unknown": phrase_in("duplicate", "unknown"),
}
_KEYS: Final[Mapping[str, Text]] = {
    "sharding_key": phrase_in("kind of key", "sharding key"),
    "key": phrase_in("kind of key", "key"),
}
_SEVERITIES: Final[Mapping[str, Text]] = {
    "warn": phrase_in("rule of a table", "warns"),
    "block": phrase_in("rule of a table", "blocks"),
}


def disorder(kind: str) -> str:
    """Return how order did not hold."""
    return str(_DISORDERS.get(kind, kind))


def pattern(name: str) -> str:
    """Return how a key went between two queues."""
    return str(_PATTERNS.get(name, name))


def copy(kind: str) -> str:
    """Return what a duplicate is."""
    return str(_COPIES.get(kind, kind))


def cause(name: str) -> str:
    """Return why something came twice."""
    return str(_CAUSES.get(name, name))


def key_kind(name: str) -> str:
    """Return what kind of key is hot."""
    return str(_KEYS.get(name, name))


def severity(name: str) -> str:
    """Return how much the rule of a table matters."""
    return str(_SEVERITIES.get(name, name))
